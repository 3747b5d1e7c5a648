package node

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/apipods"
	"github.com/troupe-dev/troupe/actors/cgroups"
	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	placed "github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/devices"
	"github.com/troupe-dev/troupe/actors/gc"
	"github.com/troupe-dev/troupe/actors/images"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pleg"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/pods"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/actors/probes"
	"github.com/troupe-dev/troupe/actors/sources"
	"github.com/troupe-dev/troupe/actors/volumes"
)

func (b *nodeActors) podDeps(c *Config) *pod.Deps {
	d := &pod.Deps{
		Runtime: c.Ports.Runtime, Network: c.Ports.Network, Events: c.Ports.Events, SubPaths: c.Ports.Host.MountSubPaths,
		Files:       c.Ports.Files,
		LogLinks:    c.Ports.LogLinks,
		EnsureImage: func(m pod.EnsureImage) { b.images.Tell(images.Ensure{EnsureImage: m}) },
		Mount:       func(m pod.MountVolumes) { b.volumes.Tell(volumes.Mount{MountVolumes: m}) },
		Unmount:     func(m pod.UnmountVolumes) { b.volumes.Tell(volumes.Unmount{UnmountVolumes: m}) },
		Probe:       func(m pod.ProbeContainers) { b.probes.Tell(probes.Watch{ProbeContainers: m}) },
		Ask:         func(m pod.Ask) { b.podset.Tell(podset.Asked{Ask: m}) },
		Report:      func(m pod.Report) { b.podset.Tell(podset.Reported{Report: m}) },
		Finished:    func(m pod.Finished) { b.podset.Tell(podset.Finished{Finished: m}) },
		NoteRestart: func(m pod.NoteRestart) { b.podset.Tell(podset.NoteRestart{NoteRestart: m}) },
		InPlace:     func(m pod.InPlace) { b.podset.Tell(podset.InPlace{InPlace: m}) },
		CrashPolicy: c.CrashBackOff,
		RetryPolicy: backoff.Policy{Base: time.Second, Max: time.Minute},
		HostIPs:     c.HostIPs, PreferIPv6: c.PreferIPv6, RuntimeName: c.RuntimeName, Allocatable: c.Admit.Allocatable,
		Limits: c.Cgroups, Devices: c.unserved(),
	}
	d.ForgetImages = func(uid types.UID) { b.images.Tell(images.Forget{UID: uid}) }
	if c.Ports.DevicePlugins != nil {
		d.PreStart = func(of placed.PreStart, reply func(error)) {
			b.devices.Tell(devices.PreStart{PreStart: of, Reply: reply})
		}
	}
	b.tellClaims(c, d)
	if c.Ports.Cgroups != nil {
		d.EnsureCgroup = func(m pod.EnsureCgroup) { b.resources.Tell(cgroups.Ensure{EnsureCgroup: m}) }
		d.Cgroups = c.Ports.Cgroups
		d.RemoveCgroup = func(m pod.RemoveCgroup) { b.resources.Tell(cgroups.Remove{RemoveCgroup: m}) }
	}
	return d
}

func (b *nodeActors) podsDeps(c *Config) *pods.Deps {
	d := &pods.Deps{
		Pod: b.podDeps(c), Wrap: c.Wrap,
		Begun:     func(child pods.Child, old bool) { b.podset.Tell(podset.Begun{Child: child, Old: old}) },
		Restarted: func() { b.probes.Tell(probes.PodsRestarted{}) },
		Missed:    func() { b.podset.Tell(podset.ListChildren{}) },
	}
	if c.Ports.API != nil {
		b.above.tellPods(c, d.Pod)
	}
	return d
}

// living asks podset which pods must not be collected. It is answered once all sources have reported; see
// podset.Living.
func (b *nodeActors) living(up bool) func(reply func(map[types.UID]bool)) {
	return func(reply func(map[types.UID]bool)) {
		b.podset.Tell(podset.Living{Up: up, Reply: func(living map[types.UID]bool, all bool) {
			if all {
				reply(living)
			}
		}})
	}
}

func (b *nodeActors) spawnPodset(n *node, ctx *kernel.Context[Message]) {
	b.podset = spawnAs(ctx, n.config.Around, kernel.Spec[podset.Message]{
		Name: "podset", Policy: podset.Policy, New: podset.New(b.podsetDeps(n, ctx)),
		Follows: []kernel.Subscription[podset.Message]{
			kernel.Follow(&b.node, func(n *v1.Node) podset.Message { return podset.NodeSeen{Node: n} }),
			kernel.Follow(&b.pressure, func(s eviction.Conditions) podset.Message {
				return podset.NodePressure{Pressure: admit.Pressure{Memory: s.Memory, Disk: s.Disk, PID: s.PID}}
			}),
			kernel.Follow(&b.down, func(on bool) podset.Message { return podset.ShuttingDown{On: on} }),
		},
	})
}

func (b *nodeActors) podsetDeps(n *node, ctx *kernel.Context[Message]) *podset.Deps {
	c, self := n.config, ctx.Self()
	d := &podset.Deps{
		Sources: []podspec.Origin{podspec.File, podspec.HTTP}, Events: c.Ports.Events,
		Machine: pod.Machine{HostIPs: c.HostIPs, Allocatable: c.Admit.Allocatable},
		Begin:   func(m pods.Begin) { b.pods.Tell(m) },
		End:     func(uid types.UID) { b.pods.Tell(pods.End{UID: uid}) },
		List:    func(reply func([]pods.Child)) { b.pods.Tell(pods.List{Reply: reply}) },
		Admit:   n.admit, Again: ctx.Incarnation() > 1, Counts: c.Observer,
		Restarted: func() {
			b.sources.Tell(sources.Resend{})
			b.pleg.Tell(pleg.Resend{})
			b.above.apipods.Tell(apipods.Resend{})
		},
		Checkpoints: c.Ports.Checkpoints,
		Collecting:  func(reply func([]observed.PodRef)) { b.gc.Tell(gc.ListCollecting{Reply: reply}) },
		Collect: func(ref observed.PodRef, abandoned, later bool) {
			b.gc.Tell(gc.Collect{Ref: ref, Abandoned: abandoned, Later: later})
		},
		Retain: func(all, wanted map[types.UID]bool) {
			b.volumes.Tell(volumes.Retain{Pods: all})
			b.images.Tell(images.Retain{Pods: all})
			b.above.retain(wanted)
		},
		ForgetImages: func(uid types.UID) { b.images.Tell(images.Forget{UID: uid}) },
	}
	if c.Assign != nil {
		d.Places = b.places(c)
	}
	if c.Observer != nil {
		d.Started = func(s podset.Started) { self.Tell(PodView{podview.Started{Started: s}}) }
	}
	if c.Ports.API != nil {
		b.above.connect(d, &b.values)
	}
	return d
}
