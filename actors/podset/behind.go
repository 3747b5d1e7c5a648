package podset

import (
	"time"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

const (
	// behindFor is how long a pod waits for another of its name before people are told, and told again.
	behindFor, behindAgain = time.Minute, 5 * time.Minute
	// nameInUse is the reason of the event.
	nameInUse = "NameInUse"
)

// behind is the pod that must end before r may begin, nil for none, and what is in its way.
func (a *registry) behind(r *record) (*record, string) {
	e := r.Namesake(a.entries())
	if e == nil {
		return nil, ""
	}
	o, why := a.of[e.Pod.UID], "waiting for the end of another pod of this name, with the UID "+string(e.Pod.UID)
	if o.report.Trouble != "" {
		why += ": " + o.report.Trouble
	}
	return o, why
}

// waits has people told of a pod that goes on waiting for another of its name.
func (a *registry) waits(ctx *kernel.Context[Message], r *record) {
	if o, _ := a.behind(r); o != nil && !r.behind {
		r.behind = true
		ctx.After(behindFor, Behind{UID: r.Pod.UID, Other: o.Pod.UID})
	}
}

// isBehind tells people of a pod that still waits for another. If the other resists, the apiserver has it no more, and
// people know of it, it waits no longer: to delete by force what can't be ended has to help.
func (a *registry) isBehind(ctx *kernel.Context[Message], m Behind) {
	r := a.of[m.UID]
	if r == nil {
		return
	}
	r.behind = false
	o, why := a.behind(r)
	if o == nil || o.Pod.UID != m.Other {
		a.waits(ctx, r)
		return
	}
	if o.GivenUp = m.Again && o.Released() && o.report.Resists; o.GivenUp {
		ctx.Log().Warn().Str("pod", r.name()).Str("uid", string(m.Other)).
			Msg("a pod deleted from the apiserver does not terminate; starting the new pod of the same name beside it")
		why += "; waiting no longer"
	}
	a.deps.Events.Record(port.Event{Pod: r.Pod, Warning: true, Reason: nameInUse, Message: why, At: ctx.Now()})
	if o.GivenUp {
		a.reconcile(ctx)
		return
	}
	r.behind = true
	ctx.After(behindAgain, Behind{UID: m.UID, Other: m.Other, Again: true})
}
