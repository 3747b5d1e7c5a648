package machine

import (
	"context"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/volumefiles"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
)

// Host is the file systems of a machine, as far as pods use them.
type Host struct {
	Calls
	pods map[types.UID]*podDirs
	// keys is how many keys were made.
	keys int
	// published says what CSI drivers have of a pod, empty for nothing.
	published func(types.UID) string
}

var _ port.Host = (*Host)(nil)

// podDirs is what there is of one pod.
type podDirs struct {
	// mounted are the names of its volumes. unmounted: they were, and no longer are.
	mounted   []string
	unmounted bool
	// contents are by volume; nil if no volume has any.
	contents map[string]*volumefiles.Content
}

func newHost(clock simport.Clock) *Host {
	return &Host{Calls: Calls{clock: clock}, pods: map[types.UID]*podDirs{}}
}

// PreparePod implements port.Host.
func (h *Host) PreparePod(ctx context.Context, p *v1.Pod, done func(error)) {
	h.do(ctx, Call{Verb: "PreparePod", Pod: string(p.UID)}, hostLatency, done, func() error {
		if h.pods[p.UID] == nil {
			h.pods[p.UID] = &podDirs{}
		}
		h.pods[p.UID].unmounted = false
		return nil
	})
}

// MountVolume implements port.Host. A volume of any type can be mounted, but only after
// PreparePod: the agent must not rely on less.
func (h *Host) MountVolume(ctx context.Context, r port.MountVolume, done func(string, error)) {
	p, v := r.Pod, r.Volume
	var path string
	call := Call{Verb: "MountVolume", Pod: string(p.UID), Volume: v.Name}
	h.do(ctx, call, hostLatency, func(err error) { done(path, err) }, func() error {
		dirs := h.pods[p.UID]
		if dirs == nil {
			detail := "the pod's directory is not there"
			return &port.Error{Verb: "MountVolume", Object: p.Namespace + "/" + p.Name, Detail: detail}
		}
		path = pathOf(p.UID, v)
		if !slices.Contains(dirs.mounted, v.Name) {
			dirs.mounted = append(dirs.mounted, v.Name)
		}
		if r.Content != nil {
			if dirs.contents == nil {
				dirs.contents = map[string]*volumefiles.Content{}
			}
			dirs.contents[v.Name] = r.Content
		}
		return nil
	})
}

// GrowVolume implements port.Host. What there is has no size.
func (h *Host) GrowVolume(ctx context.Context, r port.GrowVolume, done func(error)) {
	call := Call{Verb: "GrowVolume", Pod: string(r.Pod), Name: r.Persistent.Name}
	h.do(ctx, call, hostLatency, done, func() error { return nil })
}

// pathOf is where a volume is on the host: nowhere for an image, which the runtime
// mounts.
func pathOf(uid types.UID, v *v1.Volume) string {
	switch {
	case v.Image != nil:
		return ""
	case v.HostPath != nil:
		return v.HostPath.Path
	default:
		return "/pods/" + string(uid) + "/" + v.Name
	}
}

// MountSubPaths implements port.Host.
func (h *Host) MountSubPaths(ctx context.Context, r port.MountSubPaths, done func([]string, error)) {
	paths := make([]string, len(r.Parts))
	for i, p := range r.Parts {
		paths[i] = p.Root + "/" + p.SubPath
	}
	call := Call{Verb: "MountSubPaths", Pod: string(r.Pod.UID)}
	h.do(ctx, call, hostLatency, func(err error) {
		if err != nil {
			paths = nil
		}
		done(paths, err)
	}, func() error { return nil })
}

// UnmountPod implements port.Host.
func (h *Host) UnmountPod(ctx context.Context, uid types.UID, done func(error)) {
	h.do(ctx, Call{Verb: "UnmountPod", Pod: string(uid)}, hostLatency, done, func() error {
		if path := h.published(uid); path != "" {
			return &port.Error{Kind: port.StateConflict, Verb: "UnmountPod", Object: string(uid),
				Detail: "a CSI volume has not been unpublished: " + path}
		}
		if dirs := h.pods[uid]; dirs != nil {
			*dirs = podDirs{unmounted: true}
		}
		return nil
	})
}

// RemovePod implements port.Host.
func (h *Host) RemovePod(ctx context.Context, ref port.PodDirs, done func(error)) {
	h.do(ctx, Call{Verb: "RemovePod", Pod: string(ref.UID)}, hostLatency, done, func() error {
		if dirs := h.pods[ref.UID]; dirs != nil && len(dirs.mounted) > 0 {
			return &port.Error{Kind: port.StateConflict, Verb: "RemovePod", Object: string(ref.UID),
				Detail: "something is mounted"}
		}
		if path := h.published(ref.UID); path != "" {
			return &port.Error{Kind: port.StateConflict, Verb: "RemovePod", Object: string(ref.UID),
				Detail: "a CSI volume has not been unpublished: " + path}
		}
		delete(h.pods, ref.UID)
		return nil
	})
}

// PodDirs implements port.Host.
func (h *Host) PodDirs(ctx context.Context, done func([]types.UID, error)) {
	var uids []types.UID
	h.do(ctx, Call{Verb: "PodDirs"}, hostLatency, func(err error) { done(uids, err) }, func() error {
		uids = slices.Sorted(maps.Keys(h.pods))
		return nil
	})
}

// losePower ends all mounts and what was in memory. Directories stay, and files on the disk.
func (h *Host) losePower() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, dirs := range h.pods {
		dirs.mounted = nil
		maps.DeleteFunc(dirs.contents, func(_ string, c *volumefiles.Content) bool { return c.Memory })
	}
}

// Holds says whether what a pod wrote to its volumes is still there. A pod without volumes may have written too.
func (h *Host) Holds(uid types.UID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	dirs := h.pods[uid]
	return dirs != nil && !dirs.unmounted
}

// Pods is how many pods have directories.
func (h *Host) Pods() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.pods)
}

// Put makes directories with mounted volumes, as a predecessor may have left them.
func (h *Host) Put(uid types.UID, volumes ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pods[uid] = &podDirs{mounted: volumes}
}

// Content is what is in a volume, a line path=data for each file; empty if it is not
// mounted or has no files of ours.
func (h *Host) Content(uid types.UID, volume string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	dirs := h.pods[uid]
	if dirs == nil || dirs.contents[volume] == nil {
		return ""
	}
	var b strings.Builder
	for _, f := range dirs.contents[volume].Files {
		b.WriteString(f.Path + "=" + string(f.Data) + "\n")
	}
	return b.String()
}
