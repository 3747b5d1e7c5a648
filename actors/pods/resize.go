package pods

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/decide/podset"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
)

// A pod holds of the node what it was given when it came, until it asks for
// something else and is given that. Its actor, and those that are admitted beside
// it, see what it was given and never what it asks for.
//
//	asks ──► resize: Decide ──Allocate──► save ──Saved──► assign (its actor brings it about)
//	           ▲       └─Defer, Refuse──► assign (its status says so)
//	           └── each reconcile: something may have been freed
//
// Until one of the two is told to its actor, the pod's status does not acknowledge the
// generation that asks (Resized.Undecided): who waits for a resize would take it for done.
//
// A pod that asks for what it came with has no allocation, and costs nothing.

// allocated is the pod with what it was given. It is shared, and never changed.
func (r *record) allocated() *v1.Pod {
	if r.Alloc == nil {
		return r.Pod
	}
	if r.appliedTo != r.Pod {
		r.applied, r.appliedTo = r.Alloc.Apply(r.Pod), r.Pod
	}
	return r.applied
}

// holds is the pod with what nobody else may be given.
func (r *record) holds() *v1.Pod {
	if r.Saving != nil {
		return r.Held(r.Pod)
	}
	return r.allocated()
}

// give sets what the pod was given.
func (r *record) give(alloc *podresize.Allocation) {
	r.Alloc, r.Saving, r.appliedTo = alloc, nil, nil
}

// resized is what the pod's actor is told of it.
func (r *record) resized() *pod.Resized {
	if r.Alloc == nil {
		return nil
	}
	out := pod.Resized{Generation: r.Alloc.Generation}
	if !r.Settled(r.Pod) { // else it asks for nothing
		out.Pending = r.Pending
	}
	if r.State == podset.Waiting || r.State == podset.Running && r.Stop == nil { // else nobody decides any more
		out.Undecided = r.Undecided(r.Pod)
	}
	return &out
}

// asks looks whether another version of a pod asks for other resources than the
// old one: what it asked for then is what it has.
func (r *record) asks(old *v1.Pod) {
	if r.Alloc == nil && r.State.HasActor() && podresize.Changed(old, r.Pod) {
		r.give(podresize.Of(old))
	}
}

// recall gives a pod that comes what it had before this agent began: as it is
// written down, or, if it was never resized then, as its status says.
func (a *pods) recall(r *record) {
	if r.Origin != podspec.API {
		return // another manifest is another pod
	}
	alloc := a.given.unclaimed[r.Pod.UID]
	delete(a.given.unclaimed, r.Pod.UID)
	if alloc == nil {
		alloc = podresize.FromStatus(r.Pod)
	}
	r.give(alloc)
}

// resize decides on the pods that ask for something else than they have, in their
// order. One that is given less may make room for the next.
func (a *pods) resize(ctx *kernel.Context[Message]) {
	var asking []podresize.Waiter
	for _, r := range a.ranked {
		if r.Alloc == nil || r.State != podset.Running || r.Stop != nil || r.Saving != nil {
			continue
		}
		if r.Alloc.Holds(r.Pod) {
			if r.Pending != nil { // it asks no more
				r.Pending, r.Since = nil, time.Time{}
				a.assign(r.Pod.UID)
			}
			continue
		}
		asking = append(asking, podresize.Waiter{
			Desired: r.Pod, Allocated: r.allocated(), Class: podspec.QOS(r.Pod), Since: r.Since, Rank: r.rank,
		})
	}
	if len(asking) == 0 {
		return
	}
	slices.SortFunc(asking, podresize.Order)
	for _, w := range asking {
		a.decide(ctx, a.of[w.Desired.UID])
	}
}

func (a *pods) decide(ctx *kernel.Context[Message], r *record) {
	pending := podresize.Pending{Generation: r.Pod.Generation}
	switch v := podresize.Decide(r.Pod, r.allocated(), a.beside(r), a.deps.Pod.Allocatable).(type) {
	case podresize.Allocate:
		r.Saving = podresize.Of(r.Pod)
		a.given.dirty = true
		a.save(ctx)
		return
	case podresize.Defer:
		pending.Reason, pending.Message = v1.PodReasonDeferred, v.Message
	case podresize.Refuse:
		pending.Reason, pending.Message = v1.PodReasonInfeasible, v.Message
	}
	if r.Pending != nil && *r.Pending == pending {
		return
	}
	if r.Pending == nil || r.Pending.Reason != pending.Reason || r.Pending.Generation != pending.Generation {
		reason := "ResizeDeferred"
		if pending.Reason == v1.PodReasonInfeasible {
			reason = "ResizeInfeasible"
		}
		if !podresize.Told(&r.Pod.Status, &pending) {
			text := podresize.Describe("Pod resize "+pending.Reason, r.Pod, r.Pod.Generation, pending.Message)
			a.resizeEvent(ctx, r, true, reason, text)
		}
		// What it has must not be forgotten: its spec says it no more.
		a.given.dirty = true
		a.save(ctx)
	}
	if r.Since.IsZero() {
		r.Since = ctx.Now()
	}
	r.Pending = &pending
	a.assign(r.Pod.UID)
}

// begun is called for a pod whose allocation is in the checkpoint now.
func (a *pods) begun(ctx *kernel.Context[Message], r *record) {
	r.give(r.Saving)
	r.Pending, r.Since = nil, time.Time{}
	if r.State.HasActor() {
		text := podresize.Describe("Pod resize started", r.allocated(), r.Alloc.Generation, "")
		a.resizeEvent(ctx, r, false, "ResizeStarted", text)
		a.assign(r.Pod.UID)
	}
}

func (a *pods) resizeEvent(ctx *kernel.Context[Message], r *record, warning bool, reason, message string) {
	a.deps.Pod.Events.Record(port.Event{Pod: r.Pod, Warning: warning, Reason: reason, Message: message, At: ctx.Now()})
}
