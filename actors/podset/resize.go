package podset

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/manifest"
	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/decide/podset"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
)

// A pod holds the resources of its first spec until it asks for others and gets them. Its actor,
// and the admission of others, see what it holds and never what it asks for.
//
//	asks ──► resize: Decide ──Allocate──► (CPUs of its own: see move) ──► save ──Saved──► assign (its actor actuates it)
//	           ▲       └─Defer, Refuse───────────┴─► assign (its status says so)
//	           └── each reconcile: something may have been freed
//
// Until its actor is assigned the decision, the pod's status does not acknowledge the new
// generation (Resized.Undecided): clients that wait for a resize would take it for done.
//
// A pod that asks for its first resources has no allocation, and costs nothing.

// allocated is the pod with its allocated resources. It is shared and never changed.
func (r *record) allocated() *v1.Pod {
	if r.Alloc == nil {
		return r.Pod
	}
	if r.appliedTo != r.Pod {
		r.applied, r.appliedTo = r.Alloc.Apply(r.Pod), r.Pod
	}
	return r.applied
}

// holds is the pod with all resources that other pods must not get.
func (r *record) holds() *v1.Pod {
	if r.Saving != nil {
		return r.Held(r.Pod)
	}
	return r.allocated()
}

// give sets the allocation.
func (r *record) give(alloc *podresize.Allocation) {
	r.Alloc, r.Saving, r.appliedTo = alloc, nil, nil
}

// resized is the resize in the pod's Assign.
func (r *record) resized() *pod.Resized {
	if r.Alloc == nil {
		return nil
	}
	out := pod.Resized{Generation: r.Alloc.Generation}
	if !r.Settled(r.Pod) { // else it asks for nothing new
		out.Pending = r.Pending
	}
	if r.State == podset.Waiting || r.State == podset.Running && r.Stop == nil { // else no decision is pending
		out.Undecided = r.Undecided(r.Pod)
	}
	return &out
}

// asks checks whether a new version of a pod asks for other resources than the old one. If so,
// the old ones become its allocation.
func (r *record) asks(old *v1.Pod) {
	if r.Alloc == nil && r.State.HasActor() && podresize.Changed(old, r.Pod) {
		r.give(podresize.Of(old))
	}
}

// recall restores the allocation that a pod had before this agent began: from the checkpoint or,
// if it was never resized, from its status.
func (a *registry) recall(r *record) {
	if r.Origin != podspec.API && r.Pod.Annotations[manifest.AnnotationManifest] == "" {
		return // another manifest is another pod
	}
	alloc := a.given.unclaimed[r.Pod.UID]
	delete(a.given.unclaimed, r.Pod.UID)
	if alloc == nil {
		alloc = podresize.FromStatus(r.Pod)
	}
	r.give(alloc)
}

// resize decides on the pods that ask for other resources than they have, in order. One that
// shrinks may make room for the next.
func (a *registry) resize(ctx *kernel.Context[Message]) {
	var asking []podresize.Waiter
	for _, r := range a.ranked {
		if r.Alloc == nil || r.State != podset.Running || r.Stop != nil || r.Saving != nil {
			continue
		}
		if r.Alloc.Holds(r.Pod) {
			a.giveBack(r)
			if r.Pending != nil { // it no longer asks
				a.resolved(ctx, r, reverted)
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

func (a *registry) decide(ctx *kernel.Context[Message], r *record) {
	pending := podresize.Pending{Generation: r.Pod.Generation}
	verdict := podresize.Decide(r.Pod, r.allocated(), a.beside(r), a.allocatable())
	if p := a.deps.Places; p != nil {
		if bound := podresize.Bound(r.Pod, r.allocated(), p.CPUs && !p.Resizes, p.Memory); bound != nil {
			verdict = bound
		}
	}
	if (verdict == podresize.Allocate{}) {
		if verdict = a.cpusFor(r); verdict == nil {
			return // it is decided when assignments has answered
		}
	} else {
		a.giveBack(r)
	}
	short := "" // what the event says for the reason
	switch v := verdict.(type) {
	case podresize.Allocate:
		r.Saving, r.decided = podresize.Of(r.Pod), a.given.Changed()
		a.save(ctx)
		return
	case podresize.Defer:
		pending.Reason, pending.Message = v1.PodReasonDeferred, v.Message
		short = v.Short
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
			a.countInfeasible(verdict)
		}
		if !podresize.Told(&r.Pod.Status, &pending) {
			text := podresize.Describe("Pod resize "+cmp.Or(short, pending.Reason), r.Pod, r.Pod.Generation, pending.Message)
			a.resizeEvent(ctx, r, true, reason, text)
		}
		// The allocation must be saved: the spec no longer has it.
		a.given.Changed()
		a.save(ctx)
	}
	if r.Pending == nil || r.Pending.Reason != pending.Reason {
		r.Since = ctx.Now()
	}
	r.Pending = &pending
	a.assign(r.Pod.UID)
}

// allocate gives a pod the allocation that is now in the checkpoint.
func (a *registry) allocate(ctx *kernel.Context[Message], r *record) {
	r.give(r.Saving)
	a.resolved(ctx, r, accepted)
	r.place.begins()
	if r.State.HasActor() {
		text := podresize.Describe("Pod resize started", r.allocated(), r.Alloc.Generation, "")
		a.resizeEvent(ctx, r, false, "ResizeStarted", text)
		a.assign(r.Pod.UID)
	}
}

func (a *registry) resizeEvent(ctx *kernel.Context[Message], r *record, warning bool, reason, message string) {
	a.deps.Events.Record(port.Event{Pod: r.Pod, Warning: warning, Reason: reason, Message: message, At: ctx.Now()})
}
