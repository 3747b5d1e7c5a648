package pods

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// runs says whether a pod that has no actor yet runs. Such a pod was admitted by an
// earlier agent: it is looked after from the start, whether this node's object can
// be read or not.
func (a *pods) runs(r *record) bool {
	rp, listed := a.runtime[r.pod.UID]
	if !listed {
		return false
	}
	_, ready := rp.ReadySandbox()
	return ready
}

// judge asks of the pods that were taken over before this node was known whether
// they may run here, the oldest first, each beside those that may.
func (a *pods) judge(ctx *kernel.Context[Message]) {
	var others []*v1.Pod
	for _, r := range a.ranked {
		if r.state == running && !r.unasked {
			others = append(others, r.holds())
		}
	}
	for _, r := range a.ranked {
		if !r.unasked {
			continue
		}
		r.unasked = false
		if r.state != running {
			continue
		}
		if r.stop == nil && !a.allowed(ctx, r, others) {
			r.expel(ctx.Now())
			a.assign(r.pod.UID)
		}
		others = append(others, r.holds())
	}
}

// allowed says whether a pod may run here beside others, and remembers why not.
func (a *pods) allowed(ctx *kernel.Context[Message], r *record, others []*v1.Pod) bool {
	if a.deps.Admit == nil {
		return true
	}
	if r.reject = a.deps.Admit(r.allocated(), others, a.node); r.reject == nil {
		return true
	}
	ctx.Log().Warn().Str("pod", r.name()).Str("reason", r.reject.Reason).Str("message", r.reject.Message).Msg("pod was not admitted")
	return false
}

// expel stops a pod that runs and was rejected: the node is not what it was when
// the pod was admitted.
func (r *record) expel(now time.Time) {
	r.stop = &podlife.Stop{
		At: now, Grace: podspec.Grace(r.pod), Fail: true,
		Reason: r.reject.Reason, Message: r.reject.Message, Why: r.reject.Message,
	}
}
