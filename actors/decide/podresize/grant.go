package podresize

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Grant is what a pod holds of its node, and what it asks for beyond that. The zero Grant is that
// of a pod that was never resized: it holds what it asks for.
type Grant struct {
	// Alloc is its allocation. Saving is the next one while it is being written to the checkpoint; nil
	// for none.
	Alloc, Saving *Allocation
	// Pending is a resize that is not allocated. Since is when that began for its reason.
	Pending *Pending
	Since   time.Time
}

// Held is the pod with the resources that no other pod may get. Until Saving is written, that is
// the greater of Saving and Alloc, because the next agent may start with either.
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

// Settled says whether the allocation equals what the pod asks for, and no other is being written.
func (g *Grant) Settled(p *v1.Pod) bool {
	return g.Alloc.Holds(p) && (g.Saving == nil || g.Saving.Holds(p))
}

// Undecided says whether the resize that p asks for is not decided yet. Alloc is not nil.
func (g *Grant) Undecided(p *v1.Pod) bool {
	return !g.Settled(p) && (g.Pending == nil || g.Pending.Generation != p.Generation)
}

// Told says whether the pod's status already shows the pending resize.
func Told(s *v1.PodStatus, p *Pending) bool {
	for i := range s.Conditions {
		c := &s.Conditions[i]
		if c.Type == v1.PodResizePending && c.Reason == p.Reason && c.ObservedGeneration == p.Generation {
			return true
		}
	}
	return false
}
