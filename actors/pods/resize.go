package pods

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podresize"
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
	if r.alloc == nil {
		return r.pod
	}
	if r.appliedTo != r.pod {
		r.applied, r.appliedTo = r.alloc.Apply(r.pod), r.pod
	}
	return r.applied
}

// holds is the pod with what nobody else may be given. Until what was decided is
// written down, that is the greater of it and what the pod had: the next agent may
// begin with either.
func (r *record) holds() *v1.Pod {
	switch {
	case r.saving != nil && r.alloc != nil:
		return podresize.Greater(r.alloc, r.saving).Apply(r.pod)
	case r.saving != nil:
		return r.saving.Apply(r.pod)
	}
	return r.allocated()
}

// give sets what the pod was given.
func (r *record) give(alloc *podresize.Allocation) {
	r.alloc, r.saving, r.appliedTo = alloc, nil, nil
}

// resized is what the pod's actor is told of it.
func (r *record) resized() *pod.Resized {
	if r.alloc == nil {
		return nil
	}
	out := pod.Resized{Generation: r.alloc.Generation, Pending: r.pending}
	switch {
	case r.settled():
		out.Pending = nil // it asks no more
	case r.state == waiting || r.state == running && r.stop == nil: // else nobody decides any more
		out.Undecided = r.pending == nil || r.pending.Generation != r.pod.Generation
	}
	return &out
}

// settled says whether a pod asks for what it was given, and nothing else is about to
// be given to it.
func (r *record) settled() bool {
	return r.alloc.Holds(r.pod) && (r.saving == nil || r.saving.Holds(r.pod))
}

// asks looks whether another version of a pod asks for other resources than the
// old one: what it asked for then is what it has.
func (r *record) asks(old *v1.Pod) {
	if r.alloc == nil && r.acts() && podresize.Changed(old, r.pod) {
		r.give(podresize.Of(old))
	}
}

// recall gives a pod that comes what it had before this agent began: as it is
// written down, or, if it was never resized then, as its status says.
func (a *pods) recall(r *record) {
	if r.source != podspec.API {
		return // another manifest is another pod
	}
	alloc := a.given.unclaimed[r.pod.UID]
	delete(a.given.unclaimed, r.pod.UID)
	if alloc == nil {
		alloc = podresize.FromStatus(r.pod)
	}
	r.give(alloc)
}

// resize decides on the pods that ask for something else than they have, in their
// order. One that is given less may make room for the next.
func (a *pods) resize(ctx *kernel.Context[Message]) {
	var asking []podresize.Waiter
	for _, r := range a.ranked {
		if r.alloc == nil || r.state != running || r.stop != nil || r.saving != nil {
			continue
		}
		if r.alloc.Holds(r.pod) {
			if r.pending != nil { // it asks no more
				r.pending, r.since = nil, time.Time{}
				a.assign(r.pod.UID)
			}
			continue
		}
		asking = append(asking, podresize.Waiter{
			Desired: r.pod, Allocated: r.allocated(), Class: podspec.QOS(r.pod), Since: r.since, Rank: r.rank,
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
	var others []*v1.Pod
	for _, o := range a.ranked {
		if o != r && o.state == running {
			others = append(others, o.holds())
		}
	}
	pending := podresize.Pending{Generation: r.pod.Generation}
	switch v := podresize.Decide(r.pod, r.allocated(), others, a.deps.Pod.Allocatable).(type) {
	case podresize.Allocate:
		r.saving = podresize.Of(r.pod)
		a.given.dirty = true
		a.save(ctx)
		return
	case podresize.Defer:
		pending.Reason, pending.Message = v1.PodReasonDeferred, v.Message
	case podresize.Refuse:
		pending.Reason, pending.Message = v1.PodReasonInfeasible, v.Message
	}
	if r.pending != nil && *r.pending == pending {
		return
	}
	if r.pending == nil || r.pending.Reason != pending.Reason || r.pending.Generation != pending.Generation {
		reason := "ResizeDeferred"
		if pending.Reason == v1.PodReasonInfeasible {
			reason = "ResizeInfeasible"
		}
		if !told(&r.pod.Status, &pending) {
			a.resizeEvent(ctx, r, true, reason, podresize.Describe("Pod resize "+pending.Reason, r.pod, r.pod.Generation, pending.Message))
		}
		// What it has must not be forgotten: its spec says it no more.
		a.given.dirty = true
		a.save(ctx)
	}
	if r.since.IsZero() {
		r.since = ctx.Now()
	}
	r.pending = &pending
	a.assign(r.pod.UID)
}

// told says whether users were told of it before this agent began.
func told(s *v1.PodStatus, p *podresize.Pending) bool {
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == v1.PodResizePending && c.Reason == p.Reason && c.ObservedGeneration == p.Generation {
			return true
		}
	}
	return false
}

// begun is called for a pod whose allocation is in the checkpoint now.
func (a *pods) begun(ctx *kernel.Context[Message], r *record) {
	r.give(r.saving)
	r.pending, r.since = nil, time.Time{}
	if r.acts() {
		a.resizeEvent(ctx, r, false, "ResizeStarted", podresize.Describe("Pod resize started", r.allocated(), r.alloc.Generation, ""))
		a.assign(r.pod.UID)
	}
}

func (a *pods) resizeEvent(ctx *kernel.Context[Message], r *record, warning bool, reason, message string) {
	a.deps.Pod.Events.Record(port.Event{Pod: r.pod, Warning: warning, Reason: reason, Message: message, At: ctx.Now()})
}
