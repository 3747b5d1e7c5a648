package assignments

import (
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// resize decides which CPUs the containers of a pod that runs have with other resources. The result is the answer, or
// nil if there will be one.
func (a *assignments) resize(ctx *kernel.Context[Message], q *request) *Placed {
	_, others := a.placing(q)
	_, others = a.placingMemory(q, others)
	own, why := a.deps.Rules.Resize(a.own, q.Pod, others...)
	if why != nil {
		return &Placed{UID: q.Pod.UID, Number: q.Number, Refused: why}
	}
	a.hold(ctx, q, own)
	return a.answer(ctx, q)
}

// hold notes which CPUs the containers of a pod are to run on alone. Those that they had stay theirs: they run on them.
func (a *assignments) hold(ctx *kernel.Context[Message], q *request, own map[string]cpuset.CPUSet) {
	q.own = own
	held := cpus.Held(a.own[q.Pod.UID], own)
	if cpus.Same(held, a.own[q.Pod.UID]) {
		return
	}
	a.own[q.Pod.UID] = held
	a.note(q.Pod.UID, &a.changed.cpus)
	ctx.Log().Info().Str("pod", q.Pod.Namespace+"/"+q.Pod.Name).Interface("cpus", own).
		Str("shared", a.deps.Rules.Shared(a.own).String()).Msg("assigned exclusive CPUs to containers")
}

// left gives back the CPUs that the containers of a pod had and do not run on any more.
func (a *assignments) left(ctx *kernel.Context[Message], m Place) {
	uid := m.Pod.UID
	rest := cpus.Left(a.own[uid], m.On)
	if cpus.Same(rest, a.own[uid]) {
		return
	}
	if a.own[uid] = rest; len(rest) == 0 {
		delete(a.own, uid)
	}
	a.note(uid, &a.changed.cpus)
	a.version++
	ctx.Log().Info().Str("pod", m.Pod.Namespace+"/"+m.Pod.Name).Interface("cpus", rest).
		Str("shared", a.deps.Rules.Shared(a.own).String()).Msg("released exclusive CPUs of containers")
}
