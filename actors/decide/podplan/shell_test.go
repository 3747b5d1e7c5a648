package podplan

import (
	"slices"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/probe"
)

// answered says whether a call that took effect is answered by now: a stop is
// when its container is dead.
func (w *world) answered(c *call) bool {
	if s, is := c.action.(StopContainer); is && c.kind == "" {
		k := w.can(s.ID)
		return k == nil || !k.lives()
	}
	return true
}

// deliver tells the shell how a call went.
func (w *world) deliver(c *call) {
	w.calls = slices.DeleteFunc(w.calls, func(o *call) bool { return o == c })
	in := &w.mem.in
	if c.zombie {
		w.doubt() // late
		w.logf("late %T", c.action)
		return
	}
	l := c.action.Lane()
	in.Busy.Delete(l)
	if changesRuntime(c.action) {
		w.mem.changes++
	}
	if c.kind != "" {
		w.failed(c)
		return
	}
	w.logf("ok %T%+v %s", c.action, c.action, c.id)
	delete(in.Failures, l)
	w.succeeded(c)
	in.View.Sort()
}

func (w *world) succeeded(c *call) {
	in := &w.mem.in
	switch a := c.action.(type) {
	case ObservePod:
		if !c.quiet || c.changes != w.mem.changes {
			in.Known = !w.merge(c) && !c.stale
			return
		}
		w.adopt(c.view)
		in.Known = !c.stale
	case RunSandbox:
		w.mem.newborn++
		if w.seenBox(c.id) == nil {
			in.View.Sandboxes = append(in.View.Sandboxes, observed.Sandbox{ID: c.id, Attempt: a.Attempt, State: observed.SandboxReady, CreatedAt: w.now})
		}
	case StopSandbox:
		in.SandboxStopped[a.ID] = true
		if s := w.seenBox(a.ID); s != nil {
			s.State = observed.SandboxNotReady
		}
	case InspectSandbox:
		if s := w.seenBox(a.ID); s != nil {
			c.box.State = max(c.box.State, s.State)
			c.box.Detailed = !c.stale
			*s = c.box
		}
	case CreateContainer:
		w.mem.newborn++
		if w.seenCan(c.id) == nil {
			in.View.Containers = append(in.View.Containers, observed.Container{
				ID: c.id, SandboxID: a.SandboxID, Name: a.Name, Attempt: a.Attempt, State: observed.ContainerCreated,
				SpecHash: a.SpecHash, CreatedAt: w.now, Detailed: true,
			})
		}
	case StartContainer:
		if s := w.seenCan(a.ID); s != nil && s.State == observed.ContainerCreated {
			s.State, s.StartedAt, s.Detailed = observed.ContainerRunning, w.now, false
		}
	case InspectContainer:
		w.inspected(a, c)
	case StopContainer:
		in.Stopped[a.ID] = w.now
		delete(in.KillAt, a.ID)
		if s := w.seenCan(a.ID); s != nil && s.State != observed.ContainerExited {
			s.Detailed = false
		}
	case RemoveContainer:
		in.View.Containers = slices.DeleteFunc(in.View.Containers, func(o observed.Container) bool { return o.ID == a.ID })
	case RunPostStart:
		w.hook(a.ID, func(h *Hooks) { h.PostStart = HookDone })
	case RunPreStop:
		w.hook(a.ID, func(h *Hooks) { h.PreStop = HookDone })
	}
}

func (w *world) inspected(a InspectContainer, c *call) {
	s := w.seenCan(a.ID)
	if s == nil {
		return
	}
	if c.can.State < s.State && s.State != observed.ContainerUnknown {
		w.mem.in.Failures[a.Lane()] = Failure{Count: 1, At: w.now}
		return
	}
	c.can.Detailed = !c.stale
	*s = c.can
}

// probe begins the startup probes of containers that were started.
func (w *world) probe() {
	for _, k := range w.mem.in.View.Containers {
		_, probed := w.mem.in.Health[k.ID]
		if c, _ := podspec.Find(&w.pod.Spec, k.Name); !probed && k.State == observed.ContainerRunning && c.StartupProbe != nil {
			w.mem.in.Health[k.ID] = probe.Health{Startup: probe.Unknown}
		}
	}
}

func (w *world) failed(c *call) {
	in := &w.mem.in
	w.logf("failed %T%+v: %s", c.action, c.action, c.kind)
	l := c.action.Lane()
	if l.Kind != LaneHook { // a hook is not tried again
		f := in.Failures[l]
		f.Count, f.At = f.Count+1, w.now
		if c.kind != "expired" {
			f.Refusals++
		}
		in.Failures[l] = f
	}
	switch c.kind {
	case "reserved", "conflict", "notfound", "expired":
		w.doubt()
	}
	switch a := c.action.(type) {
	case StartContainer:
		if s := w.seenCan(a.ID); s != nil {
			s.Detailed = false
		}
	case StopContainer:
		delete(in.KillAt, a.ID)
		if s := w.seenCan(a.ID); s != nil {
			s.Detailed = false
		}
	case RunPostStart:
		w.hook(a.ID, func(h *Hooks) {
			if h.PostStart = HookFailed; c.kind == "ended" {
				h.PostStart = HookEnded
			}
		})
	case RunPreStop:
		w.hook(a.ID, func(h *Hooks) { h.PreStop = HookFailed })
	case InspectContainer:
		if c.kind == "notfound" {
			in.View.Containers = slices.DeleteFunc(in.View.Containers, func(o observed.Container) bool { return o.ID == a.ID })
		}
	}
}

// doubt makes the shell look again, later than any look that is under way.
func (w *world) doubt() {
	w.mem.in.Known = false
	for _, c := range w.calls {
		if _, is := c.action.(ObservePod); is {
			c.stale = true
		}
	}
}

// hint marks one object as not looked at.
func (w *world) hint(id string) {
	for _, c := range w.calls {
		if l := c.action.Lane(); l.Kind == LaneInspect && l.Name == id {
			c.stale = true
		}
	}
	if s := w.seenCan(id); s != nil && s.State != observed.ContainerExited {
		s.Detailed = false
	} else if b := w.seenBox(id); b != nil && b.State == observed.SandboxReady {
		b.Detailed = false
	} else if s == nil && b == nil {
		w.doubt()
	}
}

// relist finds what hints did not tell.
func (w *world) relist() {
	for _, k := range w.cans {
		if s := w.seenCan(k.ID); s == nil || k.State > s.State {
			w.hint(k.ID)
		}
	}
	for _, b := range w.boxes {
		if s := w.seenBox(b.id); s == nil || !b.live && s.State == observed.SandboxReady {
			w.hint(b.id)
		}
	}
	for _, s := range w.mem.in.View.Containers {
		if w.can(s.ID) == nil {
			w.doubt()
		}
	}
}

func (w *world) seenCan(id string) *observed.Container {
	cs := w.mem.in.View.Containers
	for i := range cs {
		if cs[i].ID == id {
			return &cs[i]
		}
	}
	return nil
}

func (w *world) seenBox(id string) *observed.Sandbox {
	ss := w.mem.in.View.Sandboxes
	for i := range ss {
		if ss[i].ID == id {
			return &ss[i]
		}
	}
	return nil
}

func (w *world) adopt(v observed.Pod) {
	for i := range v.Containers {
		w.adoptOne(&v.Containers[i])
	}
	for i := range v.Sandboxes {
		if old := w.seenBox(v.Sandboxes[i].ID); old != nil && old.State == v.Sandboxes[i].State {
			v.Sandboxes[i] = *old
		}
	}
	w.mem.in.View = observed.Pod{Sandboxes: v.Sandboxes, Containers: v.Containers}
}

func (w *world) adoptOne(c *observed.Container) {
	in := &w.mem.in
	if old := w.seenCan(c.ID); old != nil {
		if old.State == c.State {
			*c = *old
		}
		return
	}
	if c.State != observed.ContainerRunning {
		return
	}
	if a, busy := in.Busy.Get(Lane{Kind: LaneContainer, Name: c.Name}); busy {
		if s, is := a.(StartContainer); is && s.ID == c.ID {
			return
		}
	}
	done := HookDone
	if a, busy := in.Busy.Get(Lane{Kind: LaneHook, Name: c.ID}); busy {
		if _, is := a.(RunPostStart); is {
			done = HookRunning
		}
	}
	w.hook(c.ID, func(h *Hooks) { h.PostStart = done })
}

// merge takes from a list what can't be wrong.
func (w *world) merge(c *call) (lacks bool) {
	in := &w.mem.in
	have := map[string]bool{}
	for i := range c.view.Containers {
		k := c.view.Containers[i]
		have[k.ID] = true
		old := w.seenCan(k.ID)
		if old == nil {
			w.adoptOne(&k)
			in.View.Containers = append(in.View.Containers, k)
		} else if k.State > old.State {
			k.StartedAt = old.StartedAt
			*old = k
		}
	}
	for _, s := range c.view.Sandboxes {
		have[s.ID] = true
		old := w.seenBox(s.ID)
		if old == nil {
			in.View.Sandboxes = append(in.View.Sandboxes, s)
		} else if s.State > old.State {
			*old = s
		}
	}
	if c.newborn == w.mem.newborn {
		in.View.Containers = slices.DeleteFunc(in.View.Containers, func(o observed.Container) bool { return !have[o.ID] })
		in.View.Sandboxes = slices.DeleteFunc(in.View.Sandboxes, func(o observed.Sandbox) bool { return !have[o.ID] })
		return false
	}
	for _, k := range in.View.Containers {
		lacks = lacks || !have[k.ID]
	}
	for _, s := range in.View.Sandboxes {
		lacks = lacks || !have[s.ID]
	}
	return lacks
}
