package live

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/port"
)

// host is a machine without disks: it remembers which volumes are mounted, and
// reads no manifests. It implements port.Host, port.Manifests, port.Checkpoints
// and port.NodeFacts.
type host struct {
	machine *port.Machine

	mu          sync.Mutex
	pods        map[types.UID][]string
	checkpoints map[string][]byte
}

func newHost(m *port.Machine) *host {
	return &host{machine: m, pods: map[types.UID][]string{}, checkpoints: map[string][]byte{}}
}

// hostLatency is how long a call takes.
const hostLatency = 2 * time.Millisecond

// call does f after a moment.
func (h *host) call(ctx context.Context, verb, object string, done func(error), f func() error) {
	time.AfterFunc(hostLatency, func() {
		if ctx.Err() != nil {
			done(&port.Error{Kind: port.Canceled, Verb: verb, Object: object, Detail: "the caller gave up"})
			return
		}
		h.mu.Lock()
		err := f()
		h.mu.Unlock()
		done(err)
	})
}

// PreparePod implements port.Host.
func (h *host) PreparePod(ctx context.Context, p *v1.Pod, done func(error)) {
	h.call(ctx, "PreparePod", string(p.UID), done, func() error {
		if _, ok := h.pods[p.UID]; !ok {
			h.pods[p.UID] = nil
		}
		return nil
	})
}

// MountVolume implements port.Host. Whatever the volume is, it can be mounted.
func (h *host) MountVolume(ctx context.Context, r port.MountVolume, done func(string, error)) {
	uid, name := r.Pod.UID, r.Volume.Name
	path := "/pods/" + string(uid) + "/" + name
	if r.Volume.Image != nil {
		path = "" // the runtime mounts it
	}
	h.call(ctx, "MountVolume", string(uid), func(err error) { done(path, err) }, func() error {
		if have := h.pods[uid]; !slices.Contains(have, name) {
			h.pods[uid] = append(have, name)
		}
		return nil
	})
}

// MountSubPaths implements port.Host.
func (h *host) MountSubPaths(ctx context.Context, r port.MountSubPaths, done func([]string, error)) {
	var paths []string
	for _, part := range r.Parts {
		paths = append(paths, part.Root+"/"+part.SubPath)
	}
	h.call(ctx, "MountSubPaths", string(r.Pod.UID), func(err error) { done(paths, err) }, func() error { return nil })
}

// UnmountPod implements port.Host.
func (h *host) UnmountPod(ctx context.Context, uid types.UID, done func(error)) {
	h.call(ctx, "UnmountPod", string(uid), done, func() error {
		if _, ok := h.pods[uid]; ok {
			h.pods[uid] = nil
		}
		return nil
	})
}

// RemovePod implements port.Host.
func (h *host) RemovePod(ctx context.Context, ref port.PodDirs, done func(error)) {
	h.call(ctx, "RemovePod", string(ref.UID), done, func() error {
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
	h.call(ctx, "PodDirs", "", func(err error) { done(uids, err) }, func() error {
		uids = slices.Sorted(maps.Keys(h.pods))
		return nil
	})
}

// Read implements port.Manifests. There are none.
func (h *host) Read(_ context.Context, done func([]port.ManifestFile, error)) {
	time.AfterFunc(hostLatency, func() { done(nil, nil) })
}

// Watch implements port.Manifests. Nothing changes.
func (h *host) Watch(ctx context.Context, _ func(), done func(error)) {
	context.AfterFunc(ctx, func() { done(ctx.Err()) })
}

// Fetch implements port.Manifests. There is no manifest URL.
func (h *host) Fetch(_ context.Context, _ bool, done func([]byte, bool, error)) {
	time.AfterFunc(hostLatency, func() { done(nil, true, nil) })
}

// Load implements port.Checkpoints.
func (h *host) Load(ctx context.Context, name string, done func([]byte, error)) {
	var data []byte
	h.call(ctx, "Load", name, func(err error) { done(data, err) }, func() error {
		data = h.checkpoints[name]
		return nil
	})
}

// Save implements port.Checkpoints.
func (h *host) Save(ctx context.Context, name string, data []byte, done func(error)) {
	data = slices.Clone(data)
	h.call(ctx, "Save", name, done, func() error {
		h.checkpoints[name] = data
		return nil
	})
}

// Machine implements port.NodeFacts.
func (h *host) Machine(_ context.Context, done func(*port.Machine, error)) {
	time.AfterFunc(hostLatency, func() { done(h.machine, nil) })
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
