package node

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	v1 "k8s.io/api/core/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/answer"
	"github.com/troupe-dev/troupe/supervisor/host/cgroup"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/resourceuse"
	"github.com/troupe-dev/troupe/supervisor/host/pod/podlogs"
	"github.com/troupe-dev/troupe/supervisor/host/volume"
	"github.com/troupe-dev/troupe/supervisor/serve/nodestats"
)

// usageSource reads the resource usage of this node and its pods on request.
type usageSource struct {
	*nodeDaemon
	// find are all pods.
	find func(ctx context.Context) ([]*v1.Pod, error)
	// usage has what the kernel's files lack, and all if pods have no cgroups of their own; nil if the runtime does not
	// support that.
	usage   port.Usage
	meter   *resourceuse.Meter
	rates   rates
	partial partial
}

// usagePatience bounds the disk reads for one request.
const usagePatience = 10 * time.Second

// read is a nodestats.Source.
func (u *usageSource) read(ctx context.Context, depth nodestats.Depth) (usage.Node, []usage.Pod, error) {
	of := usage.All
	switch depth {
	case nodestats.Basic:
		of = usage.Basic
	case nodestats.Short:
		of = usage.Short
	case nodestats.Full, nodestats.Disks:
	}
	full := of == usage.All
	n := u.meter.Node(u.name, u.parts(), of)
	found, err := u.find(ctx)
	if err != nil {
		return n, nil, err
	}
	out := make([]usage.Pod, 0, len(found))
	var specs []*v1.Pod
	for _, p := range found {
		used, runs := usage.Of(p)
		// What a kubelet lists in a summary are containers that run (cri_stats_provider.go), but cAdvisor lists cgroups.
		if !runs || len(used.Containers) == 0 && depth != nodestats.Full {
			continue
		}
		if u.own != nil {
			used.ID = u.own.parent(p)
		}
		u.meter.Pod(&used, of)
		if full && !p.Spec.HostNetwork {
			u.meter.Network(&used)
		}
		if depth == nodestats.Full {
			u.meter.Open(&used)
		}
		out, specs = append(out, used), append(specs, p)
	}
	if u.own == nil || depth == nodestats.Disks {
		err = u.ask(ctx, out)
	}
	if full {
		if n.Root = resourceuse.Disk(u.rootDir()); n.Root != nil {
			n.Root.IO = u.meter.IO(n.Root.Device)
		}
	}
	if depth == nodestats.Disks {
		ctx, cancel := context.WithTimeout(ctx, usagePatience)
		defer cancel()
		err = errors.Join(err, u.disks(ctx, &n, out, specs))
	}
	u.rates.fill(&n, out)
	return n, out, err
}

// parts are the cgroups of this node that have names: that of all pods, that of this agent, and those that the
// configuration names. The root is none of them: it is the whole machine.
func (u *usageSource) parts() map[string]string {
	k := u.Config.Kubelet()
	out := map[string]string{
		stats.SystemContainerKubelet: k.KubeletCgroups, stats.SystemContainerMisc: k.SystemCgroups,
		stats.SystemContainerRuntime: u.Config.Options().RuntimeCgroups,
	}
	if k.KubeletCgroups == "" {
		out[stats.SystemContainerKubelet], _ = cgroup.Own() // without one, it is left out
	}
	if u.own != nil {
		out[stats.SystemContainerPods] = u.own.settings.Top().Path(u.own.settings.Driver)
	}
	for name, path := range out {
		if out[name] = filepath.Clean("/" + path); out[name] == "/" {
			delete(out, name)
		}
	}
	return out
}

// ask fills in what the runtime knows better: all of containers without a cgroup
// that is known, and writable layers.
func (u *usageSource) ask(ctx context.Context, pods []usage.Pod) error {
	if u.usage == nil {
		return nil
	}
	all, err := answer.Of(ctx, func(done func([]usage.Container, error)) { u.usage.ContainerUsage(ctx, done) })
	if err != nil {
		return err
	}
	usage.Fill(pods, all)
	return nil
}

// disks reads what there is on disks.
func (u *usageSource) disks(ctx context.Context, n *usage.Node, pods []usage.Pod, specs []*v1.Pod) error {
	var errs []error
	if u.usage != nil {
		type both struct{ images, layers port.DiskUse }
		d, err := answer.Of(ctx, func(done func(both, error)) {
			u.usage.Disks(ctx, func(images, layers port.DiskUse, err error) { done(both{images, layers}, err) })
		})
		errs = append(errs, err)
		if d.layers.Mountpoint == "" { // the runtime does not tell the two apart, as containerd
			d.layers = d.images
		}
		n.Images, n.Layers = u.disk(d.images), u.disk(d.layers)
	}
	for i := range pods {
		p := &pods[i]
		for j := range p.Containers {
			c := &p.Containers[j]
			if c.Rootfs != nil && n.Layers != nil {
				c.Rootfs = c.Rootfs.On(n.Layers)
			}
			c.Logs = u.logsOf(p, c.Name, n.Root)
		}
	}
	volumes, err := u.volumes(ctx, specs, false)
	for i := range volumes {
		pods[i].Volumes = volumes[i]
	}
	u.partial.tell(&u.Log, pods)
	errs = append(errs, err)
	return errors.Join(errs...)
}

// disk is the usage of a file system for one purpose.
func (u *usageSource) disk(d port.DiskUse) *usage.Disk {
	if d.Mountpoint == "" {
		return nil
	}
	whole := resourceuse.Disk(d.Mountpoint)
	if whole == nil { // the runtime may be elsewhere, as in a container of its own
		return &usage.Disk{At: time.Now(), Used: &d.Bytes, InodesUsed: &d.Inodes}
	}
	part := usage.Disk{At: whole.At, Used: &d.Bytes, InodesUsed: &d.Inodes}
	return part.On(whole)
}

// logsOf is what a container's log files take.
func (u *usageSource) logsOf(p *usage.Pod, container string, root *usage.Disk) *usage.Disk {
	bytes, files, ok := podlogs.Use(u.Config.PodLogsDir(), p.Namespace, p.Name, string(p.UID), container)
	if !ok {
		return nil
	}
	d := &usage.Disk{At: time.Now(), Used: &bytes, InodesUsed: &files}
	if root == nil {
		return d
	}
	return d.On(root)
}

// volumes measures the volumes of pods, unless that is turned off by a negative volumeStatsAggPeriod.
func (u *usageSource) volumes(ctx context.Context, pods []*v1.Pod, claimsOnly bool) ([][]usage.Volume, error) {
	if u.Config.Kubelet().VolumeStatsAggPeriod.Duration < 0 {
		return nil, nil
	}
	return u.host.VolumeUse(ctx, pods, claimsOnly)
}

// claims measures the volumes of claims, of all pods, and the logs of containers that run.
func (u *usageSource) claims(ctx context.Context) ([]*v1.Pod, []usage.Pod, error) {
	found, err := u.find(ctx)
	if err != nil {
		return nil, nil, err
	}
	volumes, err := u.volumes(ctx, found, true)
	out := make([]usage.Pod, len(found))
	for i, p := range found {
		used, _ := usage.Of(p)
		for j := range used.Containers {
			c := &used.Containers[j]
			c.Logs = u.logsOf(&used, c.Name, nil)
		}
		out[i] = used
	}
	for i := range volumes {
		out[i].Volumes = volumes[i]
	}
	return found, out, err
}

// partial are the volumes that people were told of because not all in them is counted.
type partial struct {
	mu   sync.Mutex
	told map[string]bool
}

// tell tells people of such volumes, once while a volume is so.
func (p *partial) tell(log *zerolog.Logger, pods []usage.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := map[string]bool{}
	for i := range pods {
		for _, v := range pods[i].Volumes {
			if !v.Partial {
				continue
			}
			key := string(pods[i].UID) + "/" + v.Name
			if now[key] = true; p.told[key] {
				continue
			}
			log.Warn().Str("pod", pods[i].Namespace+"/"+pods[i].Name).Str("volume", v.Name).
				Int("namesCounted", volume.WalkLimit).
				Msg("the statistics of this volume are too low: it has more names than are counted, or some can't be read; " +
					"usedBytes and inodesUsed are a lower bound; a file system with project quotas counts all " +
					"(feature gate LocalStorageCapacityIsolationFSQuotaMonitoring)")
		}
	}
	p.told = now
}

// rates remembers what was used at the last question, to say how much was since.
type rates struct {
	mu   sync.Mutex
	last map[string]usage.Sample
}

// rateAfter is the shortest time between two readings for a new rate: after less, the last rate
// is reported again.
const rateAfter = time.Second

func (r *rates) fill(n *usage.Node, pods []usage.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := make(map[string]usage.Sample, len(r.last))
	each := func(key string, c *usage.Cgroup) {
		if c.CPU == nil {
			return
		}
		last, known := r.last[key]
		next[key] = usage.Next(last, known, c, rateAfter)
	}
	each("", &n.Cgroup)
	for i := range n.Parts {
		each(n.Parts[i].Name, &n.Parts[i].Cgroup)
	}
	for i := range pods {
		p := &pods[i]
		each(string(p.UID), &p.Cgroup)
		for j := range p.Containers {
			each(strings.Join([]string{string(p.UID), p.Containers[j].RuntimeID}, "/"), &p.Containers[j].Cgroup)
		}
	}
	r.last = next
}
