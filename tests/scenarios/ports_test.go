package scenarios

import (
	"context"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
)

// fakeHost is a host in memory.
type fakeHost struct {
	w    *world
	pods map[types.UID]*podDirs
	// fault says that a call fails (not nil) or hangs (true); may be nil.
	fault func(verb string, uid types.UID, volume string) (error, bool)
	// takes is how long a call takes; nil is 2 ms.
	takes func(verb string) time.Duration
	// unmounts counts what was unmounted while a container of the pod lived.
	unmounts int
}

// podDirs is what a host has of one pod.
type podDirs struct {
	logs   bool
	mounts map[string]bool
	// holds is what is in a volume of files, a line path=data each.
	holds map[string]string
}

func newFakeHost(w *world) *fakeHost { return &fakeHost{w: w, pods: map[types.UID]*podDirs{}} }

// call does f after a moment, unless a fault says otherwise.
func (h *fakeHost) call(ctx context.Context, verb string, uid types.UID, volume string, done func(error), f func() error) {
	var fail error
	if h.fault != nil {
		var hang bool
		if fail, hang = h.fault(verb, uid, volume); hang {
			return
		}
	}
	after := 2 * time.Millisecond
	if h.takes != nil {
		after = h.takes(verb)
	}
	h.w.v.AfterFunc(after, func() {
		switch {
		case ctx.Err() != nil:
			done(&port.Error{Kind: port.Canceled, Verb: verb})
		case fail != nil:
			done(fail)
		default:
			done(f())
		}
	})
}

func (h *fakeHost) PreparePod(ctx context.Context, p *v1.Pod, done func(error)) {
	h.call(ctx, "PreparePod", p.UID, "", done, func() error {
		if h.pods[p.UID] == nil {
			h.pods[p.UID] = &podDirs{logs: true, mounts: map[string]bool{}, holds: map[string]string{}}
		}
		return nil
	})
}

func (h *fakeHost) MountVolume(ctx context.Context, r port.MountVolume, done func(string, error)) {
	p, v := r.Pod, r.Volume
	path := "/pods/" + string(p.UID) + "/" + v.Name
	h.call(ctx, "MountVolume", p.UID, v.Name, func(err error) { done(path, err) }, func() error {
		if h.pods[p.UID] == nil {
			return &port.Error{Verb: "MountVolume", Detail: "the pod's directory is not there"}
		}
		h.pods[p.UID].mounts[v.Name] = true
		if r.Content != nil {
			text := ""
			for _, f := range r.Content.Files {
				text += f.Path + "=" + string(f.Data) + "\n"
			}
			h.pods[p.UID].holds[v.Name] = text
		}
		return nil
	})
}

func (h *fakeHost) MountSubPaths(ctx context.Context, r port.MountSubPaths, done func([]string, error)) {
	paths := make([]string, len(r.Parts))
	for i, p := range r.Parts {
		paths[i] = p.Root + "/" + p.SubPath
	}
	h.call(ctx, "MountSubPaths", r.Pod.UID, r.Container, func(err error) { done(paths, err) }, func() error { return nil })
}

func (h *fakeHost) UnmountPod(ctx context.Context, uid types.UID, done func(error)) {
	h.call(ctx, "UnmountPod", uid, "", done, func() error {
		for _, p := range h.w.rt.Truth().Runtime.Pods {
			for i := range p.Containers {
				if p.Ref.UID == uid && p.Containers[i].State == observed.ContainerRunning {
					h.unmounts++
				}
			}
		}
		if p := h.pods[uid]; p != nil {
			clear(p.mounts)
		}
		return nil
	})
}

func (h *fakeHost) RemovePod(ctx context.Context, ref port.PodDirs, done func(error)) {
	h.call(ctx, "RemovePod", ref.UID, "", done, func() error {
		if p := h.pods[ref.UID]; p != nil && len(p.mounts) > 0 {
			return &port.Error{Kind: port.StateConflict, Verb: "RemovePod", Detail: "something is mounted"}
		}
		delete(h.pods, ref.UID)
		return nil
	})
}

func (h *fakeHost) PodDirs(ctx context.Context, done func([]types.UID, error)) {
	var uids []types.UID
	h.call(ctx, "PodDirs", "", "", func(err error) { done(uids, err) }, func() error {
		uids = slices.Sorted(maps.Keys(h.pods))
		return nil
	})
}

// fakeManifests is a manifest directory and a URL.
type fakeManifests struct {
	w     *world
	files map[string]string
	// readErr is why the directory can't be read; missed loses the next hints.
	readErr error
	missed  bool
	watches []*watch
	// body is what the URL says, err why it does not.
	body    string
	err     error
	fetched string
}

type watch struct {
	ctx     context.Context
	changed func()
}

// write puts a file into the directory.
func (m *fakeManifests) write(name, data string) {
	m.files[name] = data
	m.hint()
}

func (m *fakeManifests) remove(name string) {
	delete(m.files, name)
	m.hint()
}

func (m *fakeManifests) hint() {
	m.watches = slices.DeleteFunc(m.watches, func(w *watch) bool { return w.ctx.Err() != nil })
	if m.missed {
		return
	}
	for _, w := range m.watches {
		m.w.v.AfterFunc(time.Millisecond, w.changed)
	}
}

func (m *fakeManifests) Read(ctx context.Context, done func([]port.ManifestFile, error)) {
	m.w.v.AfterFunc(time.Millisecond, func() {
		if m.readErr != nil {
			done(nil, m.readErr)
			return
		}
		var files []port.ManifestFile
		for _, name := range slices.Sorted(maps.Keys(m.files)) {
			files = append(files, port.ManifestFile{Name: name, Data: []byte(m.files[name])})
		}
		done(files, nil)
	})
}

func (m *fakeManifests) Watch(ctx context.Context, changed func(), _ func(error)) {
	m.watches = append(m.watches, &watch{ctx, changed})
}

func (m *fakeManifests) Fetch(_ context.Context, fresh bool, done func([]byte, bool, error)) {
	m.w.v.AfterFunc(5*time.Millisecond, func() {
		switch {
		case m.err != nil:
			done(nil, false, m.err)
		case m.body == m.fetched && !fresh:
			done(nil, true, nil)
		default:
			m.fetched = m.body
			done([]byte(m.body), false, nil)
		}
	})
}

// fakeCheckpoints keeps checkpoints over the death of the agent.
type fakeCheckpoints struct {
	w    *world
	data map[string][]byte
	// hang says that a call is never answered; may be nil.
	hang func(verb, name string) bool
	// slow is how much longer than usual it takes to write one.
	slow time.Duration
}

func (c *fakeCheckpoints) Load(_ context.Context, name string, done func([]byte, error)) {
	if c.hang != nil && c.hang("Load", name) {
		return
	}
	c.w.v.AfterFunc(time.Millisecond, func() { done(c.data[name], nil) })
}

func (c *fakeCheckpoints) Save(ctx context.Context, name string, data []byte, done func(error)) {
	if c.hang != nil && c.hang("Save", name) {
		return
	}
	c.w.v.AfterFunc(3*time.Millisecond+c.slow, func() {
		if ctx.Err() != nil {
			done(&port.Error{Kind: port.Canceled, Verb: "Save"})
			return
		}
		c.data[name] = slices.Clone(data)
		done(nil)
	})
}

// recorder keeps events.
type recorder struct{ w *world }

func (r recorder) Record(e port.Event) {
	if r.w.keepEvents {
		r.w.events = append(r.w.events, e)
	}
}

// count is how many events there were of a pod for a reason.
func (w *world) count(name, reason string) (n int) {
	for _, e := range w.events {
		if e.Pod != nil && plainName(e.Pod.Name) == name && e.Reason == reason {
			n++
		}
	}
	return n
}
