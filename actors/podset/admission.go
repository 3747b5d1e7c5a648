package podset

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/podset"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
)

// admitted reports whether a pod may start now.
func (a *registry) admitted(ctx *kernel.Context[Message], r *record) bool {
	switch r.Admission(a.entries(), a.node != nil, a.runs(r)) {
	case podset.Wait:
		a.waits(ctx, r)
		return false
	case podset.Clean:
		if r.place.state == nothing {
			r.place.become(mayHold)
		}
		return true
	case podset.Adopt:
		return a.placed(r) // what runs keeps what it has: see assignments.Place
	case podset.Ask:
		if r.place.state == asked {
			return false // it was admitted, and holds its room; it is checked once more with the answer
		}
	}
	_, known := a.runtime[r.Pod.UID]
	pressure := a.pressure
	if known {
		pressure = admit.Pressure{}
	}
	if a.preempts(ctx, r, pressure) {
		return false
	}
	if a.allowed(r, pressure) {
		if !a.placed(r) {
			return false
		}
		if a.awaits(r) {
			return false
		}
		if r.reject = r.place.rejected; r.reject == nil {
			return true
		}
	} else if a.rereads(ctx, r) {
		return false
	}
	a.refused(ctx, r)
	if a.deps.Places != nil && admit.OutOf(r.reject) {
		a.deps.Places.Refused(assignments.Refused{Pod: r.allocated(), Why: r.reject})
	}
	if known {
		r.Add(podset.ForRefusal, *podset.Expel(r.Pod, r.reject, ctx.Now()))
		return true
	}
	r.State = podset.Next(r.State, podset.Refused)
	a.rejected(ctx, r)
	return false
}

// preempts evicts pods so that a critical pod gets their place, and reports whether it waits for that. As soon as
// one of them has ended, the pod is looked at again.
func (a *registry) preempts(ctx *kernel.Context[Message], r *record, pressure admit.Pressure) bool {
	if a.deps.Admit == nil || !podspec.Critical(r.Pod) {
		return false
	}
	victims, resource, ok := admit.Preempt(r.Pod, a.beside(r),
		func(p *v1.Pod) bool { o := a.of[p.UID]; return o != nil && o.Stop != nil },
		func(others []*v1.Pod) *admit.Rejection { return a.deps.Admit(r.allocated(), others, a.node, pressure) })
	if !ok {
		return false
	}
	for _, v := range victims {
		ctx.Log().Warn().Str("pod", r.name()).Str("victim", v.Namespace+"/"+v.Name).
			Msg("preempting a pod to admit a critical pod")
		if a.deps.Counts != nil {
			a.deps.Counts.Preempted(resource)
		}
		stop := podset.Preempted(v, ctx.Now())
		a.deps.Events.Record(port.Event{Pod: v, Warning: true, Reason: stop.Reason, Message: stop.Message, At: ctx.Now()})
		a.evict(ctx, Evict{UID: v.UID, Stop: stop})
	}
	return true
}

// readmit gives static pods that were rejected another chance when there is room: nobody else can make them again.
func (a *registry) readmit(ctx *kernel.Context[Message]) {
	if a.deps.Admit == nil {
		return
	}
	others, known := []*v1.Pod(nil), false // they are the same for all, with those that have found room
	for _, r := range a.ranked {
		if r.State != podset.Rejected || r.place.rejected != nil || !r.Origin.Static() {
			continue
		}
		if !known {
			others, known = a.beside(r), true
		}
		why := a.deps.Admit(r.allocated(), others, a.node, a.pressure)
		if why == nil {
			ctx.Log().Info().Str("pod", r.name()).Msg("admitting a static pod that was rejected: there is room now")
			r.readmitted()
			others = append(others, r.holds())
		} else if _, full := why.Short[v1.ResourcePods]; full {
			return // nor is there for any other, and there may be thousands
		}
	}
}

// readmitted makes a rejected pod one that waits.
func (r *record) readmitted() {
	r.State, r.reject, r.report = podset.Next(r.State, podset.Changed), nil, pod.Report{}
}

// allowed reports whether a pod may run beside others, and stores the reason if not.
func (a *registry) allowed(r *record, pressure admit.Pressure) bool {
	if a.deps.Admit == nil {
		return true
	}
	if r.reject = a.deps.Admit(r.allocated(), a.beside(r), a.node, pressure); r.reject == nil {
		r.read = 0
		return true
	}
	return false
}

// refused says to people that a pod may not run here.
func (a *registry) refused(ctx *kernel.Context[Message], r *record) {
	if a.deps.Counts != nil {
		a.deps.Counts.Rejected(r.reject.Reason)
	}
	a.deps.Events.Record(port.Event{
		Pod: r.Pod, Warning: true, Reason: r.reject.Reason, Message: r.reject.Message, At: ctx.Now(),
	})
	ctx.Log().Warn().Str("pod", r.name()).Str("reason", r.reject.Reason).Str("message", r.reject.Message).
		Msg("pod was not admitted")
}

// awaits reports whether a pod waits for what one has to itself that the apiserver has no more. It asks again when that
// has ended.
func (a *registry) awaits(r *record) bool {
	if r.place.rejected == nil || r.Origin.Static() {
		return false
	}
	if slices.ContainsFunc(a.ranked, func(o *record) bool { return o.Released() && o.place.state != nothing }) {
		r.place.become(awaiting)
		return true
	}
	if r.place.state != awaiting {
		return false
	}
	r.place = place{}
	return !a.placed(r)
}
