package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/port"
)

// host is a machine's file systems, as far as pods use them. They outlive the agent.
type host struct {
	n *Node
	// pods has, by UID, the volumes that are mounted of each pod that has
	// directories.
	pods map[types.UID][]string
}

// hostLatency is how long a call takes.
const hostLatency = 2 * time.Millisecond

// call does f after a moment, unless a fault says otherwise.
func (h *host) call(ctx context.Context, c HostCall, done func(error), f func() error) {
	var fault HostFault
	if hook := h.n.world.config.Hooks.Host; hook != nil {
		fault = hook(h.n.spec.Name, c)
	}
	if fault.Hang {
		return
	}
	h.n.world.clock.AfterFunc(hostLatency+fault.Latency, func() {
		switch {
		case ctx.Err() != nil:
			done(&port.Error{Kind: port.Canceled, Verb: c.Verb, Object: c.Pod, Detail: "the caller gave up"})
		case fault.Err != nil:
			done(fault.Err)
		default:
			done(f())
		}
	})
}

// PreparePod implements port.Host.
func (h *host) PreparePod(ctx context.Context, p *v1.Pod, done func(error)) {
	h.call(ctx, HostCall{Verb: "PreparePod", Pod: string(p.UID)}, done, func() error {
		if _, ok := h.pods[p.UID]; !ok {
			h.pods[p.UID] = nil
		}
		return nil
	})
}

// MountVolume implements port.Host.
func (h *host) MountVolume(ctx context.Context, r port.MountVolume, done func(string, error)) {
	p, v := r.Pod, r.Volume
	path := "/pods/" + string(p.UID) + "/" + v.Name
	h.call(ctx, HostCall{Verb: "MountVolume", Pod: string(p.UID), Volume: v.Name}, func(err error) { done(path, err) }, func() error {
		have, ok := h.pods[p.UID]
		if !ok {
			return &port.Error{Verb: "MountVolume", Object: p.Namespace + "/" + p.Name, Detail: "the pod's directory is not there"}
		}
		if !slices.Contains(have, v.Name) {
			h.pods[p.UID] = append(have, v.Name)
		}
		return nil
	})
}

// MountSubPaths implements port.Host.
func (h *host) MountSubPaths(ctx context.Context, r port.MountSubPaths, done func([]string, error)) {
	paths := make([]string, len(r.Parts))
	for i, p := range r.Parts {
		paths[i] = p.Root + "/" + p.SubPath
	}
	h.call(ctx, HostCall{Verb: "MountSubPaths", Pod: string(r.Pod.UID)}, func(err error) { done(paths, err) }, func() error { return nil })
}

// UnmountPod implements port.Host.
func (h *host) UnmountPod(ctx context.Context, uid types.UID, done func(error)) {
	h.call(ctx, HostCall{Verb: "UnmountPod", Pod: string(uid)}, done, func() error {
		if _, ok := h.pods[uid]; ok {
			h.pods[uid] = nil
		}
		return nil
	})
}

// RemovePod implements port.Host.
func (h *host) RemovePod(ctx context.Context, ref port.PodDirs, done func(error)) {
	h.call(ctx, HostCall{Verb: "RemovePod", Pod: string(ref.UID)}, done, func() error {
		if len(h.pods[ref.UID]) > 0 {
			return &port.Error{Kind: port.StateConflict, Verb: "RemovePod", Object: string(ref.UID), Detail: "something is mounted"}
		}
		delete(h.pods, ref.UID)
		return nil
	})
}

// PodDirs implements port.Host.
func (h *host) PodDirs(ctx context.Context, done func([]types.UID, error)) {
	var uids []types.UID
	h.call(ctx, HostCall{Verb: "PodDirs"}, func(err error) { done(uids, err) }, func() error {
		uids = slices.Sorted(maps.Keys(h.pods))
		return nil
	})
}

// facts is the machine as its node shows it.
type facts struct{ n *Node }

// Machine implements port.NodeFacts.
func (f facts) Machine(_ context.Context, done func(*port.Machine, error)) {
	f.n.world.clock.AfterFunc(hostLatency, func() { done(f.n.machine, nil) })
}
