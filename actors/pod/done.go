package pod

import (
	"math/bits"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// done applies the result of an effect.
func (p *pod) done(ctx *kernel.Context[Message], m ActionDone) {
	if _, mine := p.lanes.Get(m.ID); !mine {
		p.facts.Late(m.Action)
		return
	}
	p.lanes.Delete(m.ID)
	name, id := m.Action.About()
	var problem *podplan.Problem
	if m.Err != nil {
		problem = problemOf(m.Err, id, name)
	}
	if p.want == nil { // an inherited effect ended before the assignment came
		p.facts.EndedUnassigned(m.Action, problem)
		return
	}
	if m.Note != nil {
		p.note(ctx, *m.Note)
	}
	now := podplan.Situation{Now: ctx.Now(), Ref: p.ref(), Stopping: p.stop != nil}
	if problem == nil {
		p.facts.Succeeded(m.Action, now, m.Result)
		effectOf(m.Action).succeeded(p, ctx)
		return
	}
	f := p.facts.Failed(m.Action, now, *problem)
	effectOf(m.Action).failed(p, ctx, failed{kind: port.KindOf(m.Err), detail: problem.Detail, count: f.Count})
}

// problemOf translates an error for the plan. id and name identify the container.
func problemOf(err error, id, name string) *podplan.Problem {
	kind := port.KindOf(err)
	return &podplan.Problem{
		Unanswered: port.Unanswered(kind), NotFound: kind == port.NotFound, NoImage: kind == port.ImageNotFound,
		Invalid: kind == port.InvalidConfig, Canceled: kind == port.Canceled, Reserved: kind == port.NameReserved,
		InDoubt: port.Unanswered(kind) || kind == port.NameReserved || kind == port.StateConflict,
		Detail:  steady(port.Detail(err), id, name), Message: err.Error(),
	}
}

// logFailure logs a failure that produces no event.
func (p *pod) logFailure(ctx *kernel.Context[Message], call, object string, f failed) {
	log := ctx.Log().Warn
	if f.kind == port.Unavailable || bits.OnesCount(uint(f.count)) != 1 {
		// pleg logs it once for all pods. Repeated failures are logged at powers of two, and a failure that
		// nothing depends on (count 0) is not.
		log = ctx.Log().Debug
	}
	log().Str("pod", p.name()).Str("call", call).Str("object", object).Int("failures", f.count).
		Str("error", f.detail).Msg("runtime call failed")
}

// unseen tells people that the state of something of the pod could not be read. It is read again, with a backoff.
// While the runtime is away, no pod has this event: the node says so.
func (p *pod) unseen(ctx *kernel.Context[Message], call, object string, f failed) {
	p.logFailure(ctx, call, object, f)
	switch f.kind {
	case port.NotFound, port.Unavailable, port.Canceled:
	default:
		p.event(ctx, "", true, "FailedSync", "error determining status: "+f.detail)
	}
}

func (p *pod) ref() observed.PodRef {
	return observed.PodRef{UID: p.uid, Namespace: p.want.Namespace, Name: p.want.Name}
}

func (p *pod) event(ctx *kernel.Context[Message], container string, warning bool, reason, message string) {
	p.deps.Events.Record(port.Event{
		Pod: p.want, Container: container, Warning: warning, Reason: reason, Message: message, At: ctx.Now(),
	})
}
