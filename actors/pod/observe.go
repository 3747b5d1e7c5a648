package pod

import (
	"slices"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
)

// How far a list can be trusted. The pod's changes count what it began or ended
// that changes the runtime (by one), and what it was given an ID for (by birth);
// listing is what they were when the list under way was begun.
const (
	birth uint64 = 1 << 32
	// disturbed: something was being changed already when the list was begun.
	disturbed uint64 = 1 << 63
	// outdated: something happened since that the list may not show.
	outdated = ^uint64(0)
)

// doubt has the pod looked at again, by a list that is begun after now.
func (p *pod) doubt() {
	p.known = false
	p.listing = outdated
}

// listed takes in a list of the pod, as far as it can be trusted.
func (p *pod) listed(v observed.Pod) {
	begun := p.listing
	switch begun {
	case p.changes:
		p.adopt(v)
		p.known = true
	case outdated:
		p.merge(v, false)
	default:
		p.known = !p.merge(v, (begun&^disturbed)/birth == p.changes/birth)
	}
}

// adopt takes a view over as a whole.
func (p *pod) adopt(v observed.Pod) {
	v = observed.Pod{Sandboxes: slices.Clone(v.Sandboxes), Containers: slices.Clone(v.Containers)}
	v.Sort()
	for i := range v.Containers {
		c := &v.Containers[i]
		if old := p.container(c.ID); old != nil {
			keepDetails(c, old)
		} else {
			p.adoptHooks(c)
		}
	}
	for i := range v.Sandboxes {
		s := &v.Sandboxes[i]
		if old := p.sandbox(s.ID); old != nil && old.State == s.State && old.Detailed && !s.Detailed {
			*s = *old
		}
	}
	p.view = v
	p.prune()
}

// adoptHooks: what runs already had its postStart hook, or its failure was acted
// on by whoever was here before; unless that is going on still.
func (p *pod) adoptHooks(c *observed.Container) {
	if c.State != observed.ContainerRunning || p.facts.hooks[c.ID].PostStart != podplan.HookNotRun {
		return
	}
	if a, ok := p.busy.At(podplan.Lane{Kind: podplan.LaneContainer, Name: c.Name}).(podplan.StartContainer); ok && a.ID == c.ID {
		return
	}
	state := podplan.HookDone
	if _, running := p.busy.At(podplan.Lane{Kind: podplan.LaneHook, Name: c.ID}).(podplan.RunPostStart); running {
		state = podplan.HookRunning
	}
	p.setHook(c.ID, func(h *podplan.Hooks) { h.PostStart = state })
}

// merge takes from a list only what can't be wrong although this actor changed
// something meanwhile: what is new, and states that have gone on. What the list
// lacks is gone if complete says that nothing was made since it was begun;
// otherwise merge says whether there is such.
func (p *pod) merge(v observed.Pod, complete bool) (lacks bool) {
	have := map[string]bool{}
	for i := range v.Containers {
		c := v.Containers[i]
		have[c.ID] = true
		old := p.container(c.ID)
		switch {
		case old == nil:
			p.adoptHooks(&c)
			p.view.Containers = append(p.view.Containers, c)
		case c.State > old.State:
			keepDetails(&c, old)
			*old = c
		}
	}
	for i := range v.Sandboxes {
		s := v.Sandboxes[i]
		have[s.ID] = true
		old := p.sandbox(s.ID)
		switch {
		case old == nil:
			p.view.Sandboxes = append(p.view.Sandboxes, s)
		case s.State > old.State:
			s.IPs = old.IPs
			*old = s
		}
	}
	p.view.Sort()
	if complete {
		p.view.Containers = slices.DeleteFunc(p.view.Containers, func(c observed.Container) bool { return !have[c.ID] })
		p.view.Sandboxes = slices.DeleteFunc(p.view.Sandboxes, func(s observed.Sandbox) bool { return !have[s.ID] })
		p.prune()
		return false
	}
	return slices.ContainsFunc(p.view.Containers, func(c observed.Container) bool { return !have[c.ID] }) ||
		slices.ContainsFunc(p.view.Sandboxes, func(s observed.Sandbox) bool { return !have[s.ID] })
}

// prune drops the facts about what the runtime has no more.
func (p *pod) prune() {
	gone := func(id string) bool { return p.container(id) == nil && p.sandbox(id) == nil }
	for id := range p.facts.hooks { // order-free: each on its own
		if gone(id) {
			delete(p.facts.hooks, id)
		}
	}
	for id := range p.facts.health { // order-free: each on its own
		if gone(id) {
			delete(p.facts.health, id)
		}
	}
	for id := range p.facts.killAt { // order-free: each on its own
		if gone(id) {
			delete(p.facts.killAt, id)
		}
	}
	for id := range p.facts.stopped { // order-free: each on its own
		if gone(id) {
			delete(p.facts.stopped, id)
		}
	}
	for id := range p.facts.sandboxStopped { // order-free: each on its own
		if gone(id) {
			delete(p.facts.sandboxStopped, id)
		}
	}
	if p.resize != nil {
		for id := range p.resize.given { // order-free: each on its own
			if gone(id) {
				delete(p.resize.given, id)
			}
		}
	}
	for lane := range p.facts.failures { // order-free: each on its own
		switch lane.Kind {
		case podplan.LaneStop, podplan.LaneHook, podplan.LaneInspect:
			if gone(lane.Name) {
				delete(p.facts.failures, lane)
			}
		default:
		}
	}
}

// stale is the lane number of an inspection whose object changed since it was
// begun: its answer may be from before that.
const stale = -1

// reread marks what is known of a container or sandbox as out of date, and what
// an inspection that is under way will tell as well.
func (p *pod) reread(id string) {
	if c := p.container(id); c != nil {
		c.Detailed = false
	}
	if s := p.sandbox(id); s != nil {
		s.Detailed = false
	}
	for i := range p.lanes {
		if lane := &p.lanes[i].Value; lane.Kind == podplan.LaneInspect && lane.Name == id {
			lane.N = stale
		}
	}
}

// wentOn says whether a container can have come from one state to the other.
func wentOn(from, to observed.ContainerState) bool {
	return to > from || from == observed.ContainerUnknown && to != from
}

// keepDetails fills what only an inspection gives from an older look at the
// same state.
func keepDetails(c, old *observed.Container) {
	if c.Detailed {
		return
	}
	if old.State == c.State && old.Detailed {
		*c = *old
		return
	}
	c.StartedAt, c.LogPath, c.Resources = old.StartedAt, old.LogPath, old.Resources
	if c.ImageRef == "" {
		c.ImageRef = old.ImageRef
	}
}

// hint marks what an event is about as not looked at, unless what it says is
// known already: most events tell of what this actor does itself. It says
// whether it marked anything.
func (p *pod) hint(m RuntimeHint) bool {
	if s := p.sandbox(m.ID); s != nil {
		switch {
		case m.Kind == observed.ContainerDeletedEvent:
			p.doubt()
		case m.Kind != observed.ContainerStoppedEvent || s.State != observed.SandboxReady:
			return false
		}
		p.reread(s.ID)
		return true
	}
	c := p.container(m.ID)
	switch {
	case c == nil && p.making():
		return false // most likely what we make ourselves; its result is on its way
	case c == nil && m.Kind == observed.ContainerDeletedEvent:
		return false // known to be gone
	case c == nil:
		p.doubt()
	case m.Kind == observed.ContainerDeletedEvent:
		p.gone(c)
	case m.Kind == observed.ContainerStoppedEvent && c.State != observed.ContainerExited,
		m.Kind == observed.ContainerStartedEvent && c.State == observed.ContainerCreated && !p.starting(c.Name):
		p.reread(c.ID)
	default:
		return false
	}
	return true
}

// gone is for a container that the runtime has no more. That of an old
// incarnation is what garbage collection is for; a newer one is looked for.
func (p *pod) gone(c *observed.Container) {
	if newest, _ := p.view.Newest(c.Name); newest.ID != c.ID && c.State == observed.ContainerExited {
		p.forget(c.ID)
		return
	}
	p.doubt()
}

// starting: this actor's own call on the container's lane is under way.
func (p *pod) starting(name string) bool {
	return p.busy.Has(podplan.Lane{Kind: podplan.LaneContainer, Name: name})
}

// making: a sandbox or container is being made whose ID is not known yet.
func (p *pod) making() bool {
	for _, b := range p.busy {
		if b.Key.Kind == podplan.LaneSandbox || b.Key.Kind == podplan.LaneContainer {
			return true
		}
	}
	return false
}

// seen compares a relist with the view, and looks closer where they differ.
func (p *pod) seen(m RuntimeSeen) {
	if !p.known {
		p.doubt() // a look that is under way may have begun before this one
		return
	}
	have := map[string]bool{}
	for i := range m.View.Containers {
		c := &m.View.Containers[i]
		have[c.ID] = true
		mine := p.container(c.ID)
		switch {
		case mine == nil:
			a, making := p.busy.At(podplan.Lane{Kind: podplan.LaneContainer, Name: c.Name}).(podplan.CreateContainer)
			if !making || a.Attempt != c.Attempt {
				p.doubt()
			}
		case wentOn(mine.State, c.State):
			p.reread(c.ID)
		}
	}
	for i := range m.View.Sandboxes {
		s := &m.View.Sandboxes[i]
		have[s.ID] = true
		mine := p.sandbox(s.ID)
		switch {
		case mine == nil:
			a, making := p.busy.At(podplan.Lane{Kind: podplan.LaneSandbox}).(podplan.RunSandbox)
			if !making || a.Attempt != s.Attempt {
				p.doubt()
			}
		case s.State > mine.State:
			p.reread(s.ID)
		}
	}
	var lacks []string
	for i := range p.view.Containers {
		if c := &p.view.Containers[i]; !have[c.ID] && c.CreatedAt.Before(m.Listed) {
			lacks = append(lacks, c.ID)
		}
	}
	for _, id := range lacks {
		if c := p.container(id); c != nil {
			p.gone(c)
		}
	}
	for i := range p.view.Sandboxes {
		if s := &p.view.Sandboxes[i]; !have[s.ID] && s.CreatedAt.Before(m.Listed) {
			p.doubt()
		}
	}
}

func (p *pod) container(id string) *observed.Container {
	for i := range p.view.Containers {
		if p.view.Containers[i].ID == id {
			return &p.view.Containers[i]
		}
	}
	return nil
}

func (p *pod) sandbox(id string) *observed.Sandbox {
	for i := range p.view.Sandboxes {
		if p.view.Sandboxes[i].ID == id {
			return &p.view.Sandboxes[i]
		}
	}
	return nil
}

// foundRunning says whether all containers ran before this incarnation began, and
// run still: nothing has to be made for them.
func (p *pod) foundRunning() bool {
	s, ready := p.view.ReadySandbox()
	if p.stop != nil || !ready || !s.CreatedAt.Before(p.born) {
		return false
	}
	for i := range p.want.Spec.Containers {
		if c, there := p.view.Newest(p.want.Spec.Containers[i].Name); !there || c.State != observed.ContainerRunning || !c.CreatedAt.Before(p.born) {
			return false
		}
	}
	return true
}

// forget drops a container or sandbox that the runtime has no more.
func (p *pod) forget(id string) {
	p.view.Containers = slices.DeleteFunc(p.view.Containers, func(c observed.Container) bool { return c.ID == id })
	p.view.Sandboxes = slices.DeleteFunc(p.view.Sandboxes, func(s observed.Sandbox) bool { return s.ID == id })
	p.prune()
}
