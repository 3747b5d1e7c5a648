package podresize

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Grant is what a pod holds of its node, and what it asks for beyond that. The zero Grant is that of a pod
// that was never resized: it holds what it asks for.
type Grant struct {
	// Alloc is what it was given. Saving is what it is given as soon as the checkpoint has that, nil if it
	// is given nothing else.
	Alloc, Saving *Allocation
	// Pending is a resize that it was not given, and Since is when that began.
	Pending *Pending
	Since   time.Time
}

// Held is the pod with what no other pod may be given. Until Saving is written, that is the greater of it
// and what the pod had: the next agent may begin with either.
func (g *Grant) Held(p *v1.Pod) *v1.Pod {
	switch {
	case g.Saving != nil && g.Alloc != nil:
		return Greater(g.Alloc, g.Saving).Apply(p)
	case g.Saving != nil:
		return g.Saving.Apply(p)
	case g.Alloc != nil:
		return g.Alloc.Apply(p)
	}
	return p
}

// Settled says whether a pod asks for what it was given, and is given nothing else.
func (g *Grant) Settled(p *v1.Pod) bool {
	return g.Alloc.Holds(p) && (g.Saving == nil || g.Saving.Holds(p))
}

// Undecided says whether it is still to be decided what p asks for now. Alloc is not nil.
func (g *Grant) Undecided(p *v1.Pod) bool {
	return !g.Settled(p) && (g.Pending == nil || g.Pending.Generation != p.Generation)
}

// Told says whether users were told of a pending resize before: the pod's status has it.
func Told(s *v1.PodStatus, p *Pending) bool {
	for i := range s.Conditions {
		c := &s.Conditions[i]
		if c.Type == v1.PodResizePending && c.Reason == p.Reason && c.ObservedGeneration == p.Generation {
			return true
		}
	}
	return false
}
