package podset

import (
	"github.com/troupe-dev/troupe/actors/decide/podset"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/pods"
)

// The actors of pods outlive this one. Each begins, and is found again, in the same way:
//
//	admitted ──Begin──► pods ──Begun───────► Assign, with what the runtime has: the actor begins with that
//	                      └────Begun, Old──► Assign without it, RuntimeSeen, Repeat: it compares, and reports again
//
// After a restart, this actor first asks which pods have an actor (List). Such a pod was admitted, and is not judged
// again. It asks too when pods has restarted, and when messages between the two were dropped. Then Begin is sent again
// for each pod that should have an actor, and is not known to have one.

// askChildren asks pods which pods have an actor.
func (a *registry) askChildren(ctx *kernel.Context[Message]) {
	self := ctx.Self()
	a.deps.List(func(all []pods.Child) { self.Tell(Children{all}) })
}

// spawn has pods make the actor of a pod, or say which one it is.
func (a *registry) spawn(r *record) { a.deps.Begin(pods.Begin{Pod: r.Pod, Life: r.first}) }

// children takes in which pods have an actor. One that this actor does not know, and that no source wants, is stopped
// as an orphan: see stopUnknown.
func (a *registry) children(ctx *kernel.Context[Message], all []pods.Child) {
	a.childrenKnown = true
	clear(a.unclaimed) // the list is whole
	for _, c := range all {
		a.unclaimed[c.Pod.UID] = c
	}
	for _, r := range a.ranked {
		there, ofLife := a.claim(r)
		switch {
		case r.State == podset.Running || r.State == podset.Finished:
			if !ofLife {
				r.ref = kernel.Ref[pod.Message]{}
			}
			if r.ref.IsZero() {
				a.spawn(r)
			}
		case there && !r.lives && r.State != podset.Collecting:
			a.deps.End(r.Pod.UID) // it has not begun: this was lost
		}
	}
	a.reconcile(ctx)
}

// claim reports whether a pod without a record had an actor, and whether it was of the life that its record is of.
func (a *registry) claim(r *record) (there, ofLife bool) {
	c, there := a.unclaimed[r.Pod.UID]
	delete(a.unclaimed, r.Pod.UID)
	return there, there && c.Life == r.first
}

// begun assigns a pod to its actor.
func (a *registry) begun(m Begun) {
	r := a.of[m.Pod.UID]
	switch {
	case !a.childrenKnown:
		return // for an earlier incarnation: Children follows
	case r == nil && (!a.ready() || !a.allSeen()):
		a.unclaimed[m.Pod.UID] = m.Child // for an earlier incarnation, and its source may still want it
		return
	case r != nil && r.State == podset.Waiting && r.lives:
		return // it begins when it is its turn
	case r == nil || !r.State.HasActor():
		a.deps.End(m.Pod.UID) // the same, and its name was not free until now
		return
	case m.Life != r.first || m.Old && !r.ref.IsZero():
		return
	case m.Old && !r.lives:
		a.deps.End(m.Pod.UID) // the answer to Begin was lost, or End: then it has ended, and knows only that
		a.spawn(r)
		return
	}
	r.ref = m.Ref
	seen := r.view
	if m.Old || a.heir {
		r.view = nil // for an actor that knows nothing yet
	}
	a.assign(m.Pod.UID)
	if !m.Old {
		return
	}
	if seen != nil {
		r.ref.Tell(pod.RuntimeSeen{View: *seen, Listed: a.listed})
	}
	r.ref.Tell(pod.Repeat{})
}
