package pressure

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/answer"
	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/pod/podlogs"
)

// Use implements port.Pressure. The runtime's IDs of containers are those in the status of the pods.
func (p *Pressure) Use(ctx context.Context, pods []*v1.Pod, want port.PodUse, done func([]eviction.Use, error)) {
	const verb, object = "Measure", "what pods use"
	rescue.Ask(ctx, func() ([]eviction.Use, error) {
		out, err := p.use(ctx, pods, want)
		if err != nil {
			err = &port.Error{Kind: hostcall.KindOf(err), Verb: verb, Object: object, Detail: err.Error()}
		}
		return out, err
	}, port.Panicked(verb, object), done)
}

func (p *Pressure) use(ctx context.Context, pods []*v1.Pod, want port.PodUse) ([]eviction.Use, error) {
	out := make([]eviction.Use, len(pods))
	var errs []error
	if want.Disk {
		found, err := p.config.Ephemeral(ctx, pods, want.Soon)
		errs = append(errs, err)
		copy(out, found)
	}
	known := make([]usage.Pod, len(pods))
	for i, pod := range pods {
		u := &known[i]
		*u, _ = usage.Of(pod)
		out[i].UID = pod.UID
		if p.config.Cgroups != nil {
			if name, err := p.config.Cgroups.Pod(pod); err == nil {
				u.ID = name.Path(p.config.Cgroups.Driver)
			}
		}
		if want.Memory {
			p.config.Meter.Pod(u, usage.Basic)
		}
		if want.Processes && u.ID != "" {
			out[i].Processes = p.config.Meter.Processes(u.ID)
		}
	}
	if p.config.Runtime != nil && (want.Disk || want.Memory && p.config.Cgroups == nil) {
		all, err := p.layersOf(ctx)
		errs = append(errs, err)
		usage.Fill(known, all)
	}
	for i, pod := range pods {
		p.containers(pod, &known[i], want, &out[i])
	}
	return out, errors.Join(errs...)
}

// How long the runtime may take to say what containers use, and how long its last answer is used in place of a new one.
const (
	usagePatience = 5 * time.Second
	usageKept     = 5 * time.Minute
)

// layersOf is what the runtime says that containers use, or said a while ago if it does not answer: a runtime that
// hangs on a full disk must not keep the node from freeing it.
func (p *Pressure) layersOf(ctx context.Context) ([]usage.Container, error) {
	ctx, cancel := context.WithTimeout(ctx, usagePatience)
	defer cancel()
	all, err := answer.Of(ctx, func(done func([]usage.Container, error)) {
		p.config.Runtime.ContainerUsage(ctx, done)
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.used, p.usedAt = all, time.Now()
		return all, nil
	case time.Since(p.usedAt) < usageKept:
		all = p.used
	}
	return all, fmt.Errorf("ask the runtime for the writable layers of containers: %w", err)
}

// containers fills in the containers of a pod, in the order of its spec.
func (p *Pressure) containers(pod *v1.Pod, u *usage.Pod, want port.PodUse, to *eviction.Use) {
	var names []string
	for i := range pod.Spec.InitContainers {
		names = append(names, pod.Spec.InitContainers[i].Name)
	}
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	for i := range pod.Spec.EphemeralContainers {
		names = append(names, pod.Spec.EphemeralContainers[i].Name)
	}
	running := make(map[string]*usage.Container, len(u.Containers))
	for i := range u.Containers {
		running[u.Containers[i].Name] = &u.Containers[i]
	}
	if want.Memory && u.Cgroup.Memory != nil {
		to.Memory = u.Cgroup.Memory.Held()
		if p.config.Files != nil {
			to.Memory += p.config.Files(pod)
		}
	}
	for _, name := range names {
		c := eviction.ContainerUse{Name: name}
		if want.Disk {
			c.Logs.Bytes, c.Logs.Inodes, _ = podlogs.Use(p.config.Logs, pod.Namespace, pod.Name, string(pod.UID), name)
		}
		if r := running[name]; r != nil {
			if want.Memory && r.Cgroup.Memory != nil {
				c.Memory = r.Cgroup.Memory.Held()
			}
			if want.Disk && r.Rootfs != nil {
				c.Layer = eviction.DiskUse{Bytes: value(r.Rootfs.Used), Inodes: value(r.Rootfs.InodesUsed)}
			}
		}
		to.Containers = append(to.Containers, c)
	}
}

func value(n *uint64) uint64 {
	if n == nil {
		return 0
	}
	return *n
}
