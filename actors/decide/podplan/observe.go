package podplan

import (
	"maps"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// These constants say how far a list can be trusted. Facts.changes counts two things: effects that
// changed the runtime, begun or ended (1 each), and objects that got an ID (birth each).
// Facts.listing is its value when the list under way was begun.
const (
	birth uint64 = 1 << 32
	// disturbed: an effect that changes the runtime was under way when the list was begun.
	disturbed uint64 = 1 << 63
	// outdated: the list may miss something that happened after it was begun.
	outdated = ^uint64(0)
)

// Doubt makes the plan list the pod again. Only a list begun after this call counts.
func (f *Facts) Doubt() {
	f.Known = false
	f.listing = outdated
}

// Found says whether a sandbox or container was there when this incarnation of the actor began:
// others may know of it what this actor does not.
func (f *Facts) Found(id string) bool { return slices.Contains(f.found, id) }

// find notes what a list shows that this actor has not made, until the view is complete once.
func (f *Facts) find(v observed.Pod) {
	if f.adopted {
		return
	}
	mine := f.ByID()
	for i := range v.Containers {
		if id := v.Containers[i].ID; mine.Get(id) == nil {
			f.found = append(f.found, id)
		}
	}
	for i := range v.Sandboxes {
		if id := v.Sandboxes[i].ID; f.Sandbox(id) == nil {
			f.found = append(f.found, id)
		}
	}
}

// listed takes in a list of the pod, as far as it can be trusted.
func (f *Facts) listed(v observed.Pod) {
	begun := f.listing
	switch begun {
	case f.changes:
		f.Adopt(v)
	case outdated:
		f.merge(v, false)
	default:
		f.Known = !f.merge(v, (begun&^disturbed)/birth == f.changes/birth)
		f.adopted = f.adopted || f.Known
	}
}

// Adopt replaces the whole view.
func (f *Facts) Adopt(v observed.Pod) {
	f.find(v)
	f.adopted = true
	v = observed.Pod{Sandboxes: slices.Clone(v.Sandboxes), Containers: slices.Clone(v.Containers)}
	v.Sort()
	mine := f.ByID()
	for i := range v.Containers {
		c := &v.Containers[i]
		if old := mine.Get(c.ID); old != nil {
			keepDetails(c, old)
		} else {
			f.adoptHooks(c)
		}
	}
	for i := range v.Sandboxes {
		s := &v.Sandboxes[i]
		if old := f.Sandbox(s.ID); old != nil && old.State == s.State && old.Detailed && !s.Detailed {
			*s = *old
		}
	}
	dropped := f.View.Containers
	f.View, f.Known = v, true
	f.number(dropped)
	f.prune()
}

// number remembers the numbers of containers that ran and that the runtime no longer has.
func (f *Facts) number(dropped []observed.Container) {
	left := f.ByID()
	for i := range dropped {
		c := &dropped[i]
		if ran := c.State != observed.ContainerCreated; ran && c.Attempt+1 > f.numbers[c.Name] && left.Get(c.ID) == nil {
			put(&f.numbers, c.Name, c.Attempt+1)
		}
	}
}

// adoptHooks sets the postStart hook of a container found running to done, unless the hook is still
// running. Either the hook ran, or an earlier incarnation of the actor acted on its failure.
func (f *Facts) adoptHooks(c *observed.Container) {
	if c.State != observed.ContainerRunning || f.Hooks[c.ID].PostStart != HookNotRun {
		return
	}
	if a, ok := f.Busy.At(Lane{Kind: LaneContainer, Name: c.Name}).(StartContainer); ok && a.ID == c.ID {
		return
	}
	state := HookDone
	if _, running := f.Busy.At(Lane{Kind: LaneHook, Name: c.ID}).(RunPostStart); running {
		state = HookRunning
	}
	f.setHook(c.ID, func(h *Hooks) { h.PostStart = state })
}

// merge takes from a list what is true even though this actor changed something meanwhile: new
// objects, and states that have advanced. complete says that nothing was made since the list was
// begun. Then objects missing from the list are dropped. Otherwise they are kept, and lacks is true
// if there are any.
func (f *Facts) merge(v observed.Pod, complete bool) (lacks bool) {
	f.find(v)
	have, mine := map[string]bool{}, f.ByID()
	for i := range v.Containers {
		c := v.Containers[i]
		have[c.ID] = true
		switch at := mine.Place(c.ID, i); { // what is appended does not move the others
		case at < 0:
			f.adoptHooks(&c)
			f.View.Containers = append(f.View.Containers, c)
		case c.State > f.View.Containers[at].State:
			keepDetails(&c, &f.View.Containers[at])
			f.View.Containers[at] = c
		}
	}
	for i := range v.Sandboxes {
		s := v.Sandboxes[i]
		have[s.ID] = true
		old := f.Sandbox(s.ID)
		switch {
		case old == nil:
			f.View.Sandboxes = append(f.View.Sandboxes, s)
		case s.State > old.State:
			s.IPs = old.IPs
			*old = s
		}
	}
	f.View.Sort()
	if complete {
		dropped := slices.Clone(f.View.Containers)
		f.View.Containers = slices.DeleteFunc(f.View.Containers, func(c observed.Container) bool { return !have[c.ID] })
		f.View.Sandboxes = slices.DeleteFunc(f.View.Sandboxes, func(s observed.Sandbox) bool { return !have[s.ID] })
		f.number(dropped)
		f.prune()
		return false
	}
	return slices.ContainsFunc(f.View.Containers, func(c observed.Container) bool { return !have[c.ID] }) ||
		slices.ContainsFunc(f.View.Sandboxes, func(s observed.Sandbox) bool { return !have[s.ID] })
}

// prune drops facts about objects that the runtime no longer has.
func (f *Facts) prune() {
	left := f.ByID()
	gone := func(id string) bool { return left.Get(id) == nil && f.Sandbox(id) == nil }
	dropGone(f.Hooks, gone)
	dropGone(f.Health, gone)
	dropGone(f.KillAt, gone)
	dropGone(f.Stopped, gone)
	dropGone(f.StopBegan, gone)
	dropGone(f.LookAgain, gone)
	dropGone(f.SandboxStopped, gone)
	dropGone(f.Given, gone)
	dropGone(f.Places, gone)
	f.found = slices.DeleteFunc(f.found, gone)
	for lane := range f.Failures { // order-free: each on its own
		switch lane.Kind {
		case LaneStop, LaneHook, LaneInspect, LanePlace:
			if gone(lane.Name) {
				delete(f.Failures, lane)
			}
		default:
		}
	}
}

func dropGone[V any](m map[string]V, gone func(string) bool) {
	maps.DeleteFunc(m, func(id string, _ V) bool { return gone(id) }) // order-free: each on its own
}

// Reread marks the details of a container or sandbox as out of date, including the answer of an
// inspection that is under way.
func (f *Facts) Reread(id string) {
	if c := f.Container(id); c != nil {
		c.Detailed = false
	}
	if s := f.Sandbox(id); s != nil {
		s.Detailed = false
	}
	if f.Busy.Has(Lane{Kind: LaneInspect, Name: id}) && !slices.Contains(f.outdated, id) {
		f.outdated = append(f.outdated, id)
	}
}

// wentOn says whether a container can have moved from one state to the other.
func wentOn(from, to observed.ContainerState) bool {
	return to > from || from == observed.ContainerUnknown && to != from
}

// keepDetails copies the details from an older view of the same state. Only an inspection gives
// them.
func keepDetails(c, old *observed.Container) {
	if c.Detailed {
		return
	}
	if old.State == c.State && old.Detailed {
		*c = *old
		return
	}
	c.StartedAt, c.LogPath, c.Resources = old.StartedAt, old.LogPath, old.Resources
	c.User, c.RecursiveReadOnly = old.User, old.RecursiveReadOnly
	if c.ImageRef == "" {
		c.ImageRef = old.ImageRef
	}
}

// Hint marks the object of an event to be read again, and says whether it marked anything. Most
// events are caused by this actor's own calls, so an event that says nothing new is ignored.
func (f *Facts) Hint(id string, kind observed.EventKind) bool {
	if s := f.Sandbox(id); s != nil {
		switch {
		case kind == observed.ContainerDeletedEvent:
			f.Doubt()
		case kind != observed.ContainerStoppedEvent || s.State != observed.SandboxReady:
			return false
		}
		f.Reread(s.ID)
		return true
	}
	c := f.Container(id)
	switch {
	case c == nil && f.making():
		return false // most likely this actor's own call makes it; the result is on its way
	case c == nil && kind == observed.ContainerDeletedEvent:
		return false // known to be gone
	case c == nil:
		f.Doubt()
	case kind == observed.ContainerDeletedEvent:
		f.gone(c)
	case kind == observed.ContainerStoppedEvent && c.State != observed.ContainerExited,
		kind == observed.ContainerStartedEvent && c.State == observed.ContainerCreated && !f.starting(c.Name):
		f.Reread(c.ID)
	default:
		return false
	}
	return true
}

// gone handles a container that the runtime no longer has. Garbage collection removes containers of
// old incarnations, so those are dropped. If the newest one is missing, the pod is listed again.
func (f *Facts) gone(c *observed.Container) {
	if newest, _ := f.View.Newest(c.Name); newest.ID != c.ID && c.State == observed.ContainerExited {
		f.forget(c.ID)
		return
	}
	f.Doubt()
}

// starting: this actor's own call on the container's lane is under way.
func (f *Facts) starting(name string) bool {
	return f.Busy.Has(Lane{Kind: LaneContainer, Name: name})
}

// making: a sandbox or container is being made, and its ID is not known yet.
func (f *Facts) making() bool {
	for _, b := range f.Busy {
		if b.Key.Kind == LaneSandbox || b.Key.Kind == LaneContainer {
			return true
		}
	}
	return false
}

// Relisted compares a relist, which was begun at listed, with the view, and reads again what differs.
func (f *Facts) Relisted(v observed.Pod, listed, now time.Time) {
	if !f.Known {
		f.Doubt() // a list that is under way may have begun before this relist
		return
	}
	// What was made in the future is from before the clock was set back.
	before := func(made time.Time) bool { return made.Before(listed) || made.After(now) }
	have, known := map[string]bool{}, f.ByID()
	for i := range v.Containers {
		c := &v.Containers[i]
		have[c.ID] = true
		mine := known.Get(c.ID)
		switch {
		case mine == nil:
			a, making := f.Busy.At(Lane{Kind: LaneContainer, Name: c.Name}).(CreateContainer)
			if !making || a.Attempt != c.Attempt {
				f.Doubt()
			}
		case wentOn(mine.State, c.State):
			f.Reread(c.ID)
		}
	}
	for i := range v.Sandboxes {
		s := &v.Sandboxes[i]
		have[s.ID] = true
		mine := f.Sandbox(s.ID)
		switch {
		case mine == nil:
			a, making := f.Busy.At(Lane{Kind: LaneSandbox}).(RunSandbox)
			if !making || a.Attempt != s.Attempt {
				f.Doubt()
			}
		case s.State > mine.State:
			f.Reread(s.ID)
		}
	}
	var lacks []string
	for i := range f.View.Containers {
		if c := &f.View.Containers[i]; !have[c.ID] && before(c.CreatedAt) {
			lacks = append(lacks, c.ID)
		}
	}
	for _, id := range lacks {
		if c := f.Container(id); c != nil {
			f.gone(c)
		}
	}
	for i := range f.View.Sandboxes {
		if s := &f.View.Sandboxes[i]; !have[s.ID] && before(s.CreatedAt) {
			f.Doubt()
		}
	}
}

// Appeared takes from a relist of a pod that has ended what is alive and was not known: a call that was
// given up before the end may still have worked.
func (f *Facts) Appeared(v observed.Pod) {
	var late observed.Pod
	for i := range v.Containers {
		if c := &v.Containers[i]; c.State != observed.ContainerExited && f.Container(c.ID) == nil {
			late.Containers = append(late.Containers, *c)
		}
	}
	for i := range v.Sandboxes {
		if s := &v.Sandboxes[i]; s.State == observed.SandboxReady && f.Sandbox(s.ID) == nil {
			late.Sandboxes = append(late.Sandboxes, *s)
		}
	}
	if len(late.Containers)+len(late.Sandboxes) > 0 {
		f.merge(late, false)
	}
}

// Ran says whether a container of a sandbox has been started, as far as the runtime still shows it.
func (f *Facts) Ran(sandbox string) bool {
	for i := range f.View.Containers {
		if c := &f.View.Containers[i]; c.SandboxID == sandbox && c.State != observed.ContainerCreated {
			return true
		}
	}
	return false
}

// Container returns the container of that ID, nil if the runtime shows none.
func (f *Facts) Container(id string) *observed.Container {
	for i := range f.View.Containers {
		if f.View.Containers[i].ID == id {
			return &f.View.Containers[i]
		}
	}
	return nil
}

// Sandbox returns the sandbox of that ID, nil if the runtime shows none.
func (f *Facts) Sandbox(id string) *observed.Sandbox {
	for i := range f.View.Sandboxes {
		if f.View.Sandboxes[i].ID == id {
			return &f.View.Sandboxes[i]
		}
	}
	return nil
}

// forget drops a container or sandbox that the runtime no longer has.
func (f *Facts) forget(id string) {
	f.View.Containers = slices.DeleteFunc(f.View.Containers, func(c observed.Container) bool { return c.ID == id })
	f.View.Sandboxes = slices.DeleteFunc(f.View.Sandboxes, func(s observed.Sandbox) bool { return s.ID == id })
	f.prune()
}
