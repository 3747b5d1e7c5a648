package node

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/apiobjects"
	"github.com/troupe-dev/troupe/actors/apipods"
	"github.com/troupe-dev/troupe/actors/csi"
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/isolation"
	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	plugins "github.com/troupe-dev/troupe/actors/devices"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/mirrors"
	"github.com/troupe-dev/troupe/actors/nodestatus"
	"github.com/troupe-dev/troupe/actors/pleg"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/sources"
	"github.com/troupe-dev/troupe/actors/status"
)

// Cluster is the configuration for a node with an apiserver.
type Cluster struct {
	Own nodeobject.Own
	nodestatus.Settings
	CSI csi.Settings
	// Objects may have PodCertificates, which need PodKeys.
	Objects apiobjects.Settings
	PodKeys port.PodKeys
	// SELinux is nil on a host without it.
	SELinux *isolation.SELinuxHost
}

const (
	// apiDeadline bounds a call to the apiserver, apiProbe a call that tests whether it is back,
	// apiCalls the concurrent calls of status. apiPatience is how long a watch may be silent.
	apiDeadline = 15 * time.Second
	apiProbe    = 3 * time.Second
	apiPatience = time.Minute
	apiCalls    = 32
)

// cluster are the actors that only a node with an apiserver has.
type cluster struct {
	status     kernel.Ref[status.Message]
	mirrors    kernel.Ref[mirrors.Message]
	nodestatus kernel.Ref[nodestatus.Message]
	apipods    kernel.Ref[apipods.Message]
	objects    kernel.Ref[apiobjects.Message]
}

// connect sets the receivers in podset's Deps. Without them, podset sends nothing to a cluster.
func (a *cluster) connect(d *podset.Deps, v *values) {
	d.Sources = append(d.Sources, podspec.API)
	d.Cluster = &podset.Cluster{
		Show:     func(m status.Show) { a.status.Tell(m) },
		ShowAll:  func(m status.Shows) { a.status.Tell(m) },
		Forget:   func(uid types.UID) { a.status.Tell(status.Forget{UID: uid}) },
		Statics:  v.statics.Publish,
		ReadNode: func(number uint64) { a.nodestatus.Tell(nodestatus.ReadNode{Number: number}) },
	}
}

// countDevices says which devices there are for the Node.
func countDevices(i devices.Inventory) map[v1.ResourceName]nodeobject.Devices {
	of := make(map[v1.ResourceName]nodeobject.Devices, len(i))
	for name := range i { // order-free: a map again
		all, healthy := i.Count(name)
		of[name] = nodeobject.Devices{All: all, Healthy: healthy}
	}
	return of
}

// retain tells apiobjects which pods there are.
func (a *cluster) retain(wanted map[types.UID]bool) { a.objects.Tell(apiobjects.Retain{Pods: wanted}) }

// tellPods sets the messages of pods to apiobjects.
func (a *cluster) tellPods(c *Config, d *pod.Deps) {
	d.NeedObjects = func(m pod.NeedObjects) { a.objects.Tell(apiobjects.Need{NeedObjects: m}) }
	d.ForgetObjects = func(m pod.ForgetObjects) { a.objects.Tell(apiobjects.Forget{UID: m.UID}) }
	d.NoServices = c.Cluster.Objects.NoServices
}

// spawnServers spawns the actors that only answer.
func (a *cluster) spawnServers(ctx *kernel.Context[Message], c *Config, b *nodeActors) {
	podsetRef := b.podset
	a.status = spawn(ctx, c.Around, "status", status.New(&status.Deps{
		API: c.Ports.API, Load: c.Ports.Load, Events: c.Ports.Events,
		Outlived: func(mirror types.UID) { a.mirrors.Tell(mirrors.Outlived{Mirror: mirror}) },
		Restarted: func() {
			a.apipods.Tell(apipods.Resend{})
			a.mirrors.Tell(mirrors.Resend{})
			podsetRef.Tell(podset.ShowAgain{})
		},
		Backoff: backoff.Policy{Base: 250 * time.Millisecond, Max: 2 * time.Second},
		Refused: backoff.Policy{Base: 200 * time.Millisecond, Max: time.Minute},
		Calls:   apiCalls, Deadline: apiDeadline, Probe: apiProbe,
	}))
	a.objects = spawn(ctx, c.Around, "apiobjects", apiobjects.New(&apiobjects.Deps{
		API: c.Ports.API, Settings: c.Cluster.Objects, Keys: c.Cluster.PodKeys, Node: c.Name, Events: c.Ports.Events,
		Restarted: func() { podsetRef.Tell(podset.AskAgain{}) },
		Counts:    c.Observer, TTL: time.Minute,
		Backoff: backoff.Policy{Base: 250 * time.Millisecond, Max: 30 * time.Second},
		Doubt:   2 * time.Second, Deadline: apiDeadline, Patience: apiPatience,
	}))
	a.mirrors = spawn(ctx, c.Around, "mirrors", mirrors.New(&mirrors.Deps{
		API: c.Ports.API,
		Object: func(uid types.UID, mirror *v1.Pod, listed, restored bool) {
			a.status.Tell(status.Object{UID: uid, Pod: mirror, Listed: listed, Restored: restored})
		},
		Gone:      func(uid, mirror types.UID) { a.status.Tell(status.Gone{UID: uid, Object: mirror}) },
		Restarted: func() { a.apipods.Tell(apipods.Resend{}) },
		Backoff:   backoff.Policy{Base: 500 * time.Millisecond, Max: time.Minute}, Deadline: apiDeadline,
	}),
		kernel.Follow(&b.node, func(n *v1.Node) mirrors.Message { return mirrors.NodeSeen{Node: n} }),
		kernel.Follow(&b.statics, func(s mirrors.Statics) mirrors.Message { return s }))
}

// spawnNodeStatus spawns nodestatus. pods may ask it for the Node as soon as it has heard of pods.
func (a *cluster) spawnNodeStatus(ctx *kernel.Context[Message], c *Config, b *nodeActors) {
	var setPodCIDR func(context.Context, string, func(error))
	if c.Ports.PodNetwork != nil {
		setPodCIDR = c.Ports.PodNetwork.SetPodCIDR
	}
	own := c.Cluster.Own
	own.Unserved = c.unserved().Resources()
	d := &nodestatus.Deps{
		SetPodCIDR: setPodCIDR,
		API:        c.Ports.API, Runtime: c.Ports.Runtime, Facts: c.Ports.Facts, Events: c.Ports.Events,
		Own: &own, Devices: c.Devices, Plugins: c.Ports.DevicePlugins != nil, Checkpoints: c.Ports.Checkpoints,
		Settings: c.Cluster.Settings,
		Seen:     b.node.Publish, Changed: b.resized.Publish, Known: c.startedWith,
		Read:    func(number uint64) { b.podset.Tell(podset.NodeRead{Number: number}) },
		Backoff: backoff.Policy{Base: 200 * time.Millisecond, Max: 3 * time.Second}, Deadline: apiDeadline,
		Patience: apiPatience,
	}
	if c.csi() {
		d.Volumes = b.nodeOfVolumes.Publish
	}
	a.nodestatus = spawn(ctx, c.Around, "nodestatus", nodestatus.New(d),
		kernel.Follow(&b.pressure, func(s eviction.Conditions) nodestatus.Message {
			return nodestatus.Pressure{Conditions: s}
		}),
		kernel.Follow(&b.down, func(on bool) nodestatus.Message { return nodestatus.ShuttingDown{On: on} }),
		kernel.Follow(&b.plugins, func(s plugins.Snapshot) nodestatus.Message {
			return nodestatus.Devices{Of: countDevices(s.Inventory)}
		}),
		kernel.Follow(&b.inUse, func(all []v1.UniqueVolumeName) nodestatus.Message { return nodestatus.InUse{Volumes: all} }),
		kernel.Follow(&b.csiNode, func(struct{}) nodestatus.Message { return nodestatus.CSINodeWritten{} }))
}

// spawnSources spawns the actors that send the first messages.
func (a *cluster) spawnSources(ctx *kernel.Context[Message], c *Config, podsetRef kernel.Ref[podset.Message]) {
	a.apipods = spawn(ctx, c.Around, "apipods", apipods.New(&apipods.Deps{
		API: c.Ports.API, NodeName: c.Name, Retry: time.Second, Patience: apiPatience,
		Update:  func(u sources.Update) { podsetRef.Tell(podset.Wanted{Update: u}) },
		Forced:  func(uid types.UID) { podsetRef.Tell(podset.Forced{UID: uid}) },
		Renewed: func(p *v1.Pod) { podsetRef.Tell(podset.Renewed{Pod: p}) },
		Object:  func(m status.Object) { a.status.Tell(m) },
		Objects: func(m status.Objects) { a.status.Tell(m) },
		Gone:    func(uid types.UID) { a.status.Tell(status.Gone{UID: uid, Object: uid}) },
		Mirrors: func(list []*v1.Pod, listed bool) {
			a.mirrors.Tell(mirrors.Found{Mirrors: list, Listed: listed})
		},
	}))
}

// listed takes in how a list of the runtime went, and has the Node show it.
func (n *node) listed(h pleg.Health) {
	if h.Err != nil || n.health.Runtime.Err != nil {
		n.nodestatus.Tell(nodestatus.Lists{FailSince: h.Since})
	}
	n.health.Runtime = h
}
