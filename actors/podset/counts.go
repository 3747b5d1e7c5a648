package podset

import (
	"cmp"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// Counts is told what becomes of pods, for metrics. It must not block.
type Counts interface {
	// Ended is told of each container that has ended.
	Ended(podstatus.Ending)
	// Admitted is told of each pod that begins, Rejected why one may not.
	Admitted(*v1.Pod)
	Rejected(reason string)
	// Preempted is told of each pod whose place a critical pod takes, by the resource that the node has too little of.
	Preempted(v1.ResourceName)
	// Resizing is told of each resource that a new version of a pod changes, Infeasible why one is never allocated
	// (podresize.Refuse).
	Resizing(podresize.Change)
	Infeasible(detail string)
	// Undeferred is told how it ended that a resize was deferred, and how long it was.
	Undeferred(p *v1.Pod, how Resolution, waited time.Duration)
}

// Resolution is how it ended that a resize was deferred.
type Resolution string

const (
	accepted Resolution = "accepted"
	// reverted: the pod does not ask for it any more.
	reverted Resolution = "reverted"
	// terminated: the pod has ended.
	terminated Resolution = "terminated"
)

// countEnded counts the containers that have ended since before, which is nil if nothing was said of the pod here.
func (a *registry) countEnded(r *record, before, now *v1.PodStatus) {
	if a.deps.Counts == nil {
		return
	}
	for _, e := range podstatus.Ended(cmp.Or(before, &r.Pod.Status), now) {
		a.deps.Counts.Ended(e)
	}
}

// countAdmitted counts a pod that has begun, unless it is only taken down.
func (a *registry) countAdmitted(r *record) {
	if a.deps.Counts != nil && r.Stop == nil && !podspec.Finished(r.Pod) {
		a.deps.Counts.Admitted(r.Pod)
	}
}

// countResizing counts what a new version of a pod asks for.
func (a *registry) countResizing(r *record, old *v1.Pod) {
	if a.deps.Counts == nil || !r.State.HasActor() {
		return
	}
	for _, c := range podresize.Changes(old, r.Pod) {
		a.deps.Counts.Resizing(c)
	}
}

func (a *registry) countInfeasible(verdict podresize.Verdict) {
	if v, is := verdict.(podresize.Refuse); is && v.Detail != "" && a.deps.Counts != nil {
		a.deps.Counts.Infeasible(v.Detail)
	}
}

// resolved notes that no resize of a pod is pending any more.
func (a *registry) resolved(ctx *kernel.Context[Message], r *record, how Resolution) {
	if a.deps.Counts != nil && r.Pending != nil && r.Pending.Reason == v1.PodReasonDeferred {
		a.deps.Counts.Undeferred(r.Pod, how, ctx.Now().Sub(r.Since))
	}
	r.Pending, r.Since = nil, time.Time{}
}
