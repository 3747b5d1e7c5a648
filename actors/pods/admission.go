package pods

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podset"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// admitted says whether a pod may begin now.
func (a *pods) admitted(ctx *kernel.Context[Message], r *record) bool {
	switch r.Turn(a.entries(), a.node != nil, podset.Runs(a.runtime[r.Pod.UID])) {
	case podset.Wait:
		return false
	case podset.Clean:
		return true
	case podset.Adopt:
		r.Unasked = true
		return true
	case podset.Ask:
	}
	if a.allowed(ctx, r, a.beside(r)) {
		return true
	}
	if _, runs := a.runtime[r.Pod.UID]; runs {
		r.Stop = podset.Expel(r.Pod, r.reject, ctx.Now())
		return true
	}
	r.State = podset.Next(r.State, podset.Refused)
	a.rejected(ctx, r)
	return false
}

// judge asks of the pods that were taken over before this node was known whether
// they may run here, the oldest first, each beside those that may.
func (a *pods) judge(ctx *kernel.Context[Message]) {
	var others []*v1.Pod
	for _, r := range a.ranked {
		if r.State == podset.Running && !r.Unasked {
			others = append(others, r.holds())
		}
	}
	for _, r := range a.ranked {
		if !r.Unasked {
			continue
		}
		r.Unasked = false
		if r.State != podset.Running {
			continue
		}
		if r.Stop == nil && !a.allowed(ctx, r, others) {
			r.Stop = podset.Expel(r.Pod, r.reject, ctx.Now())
			a.assign(r.Pod.UID)
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
	ctx.Log().Warn().Str("pod", r.name()).Str("reason", r.reject.Reason).Str("message", r.reject.Message).
		Msg("pod was not admitted")
	return false
}
