package pods

import (
	"fmt"
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

// behind is which pod must end before r may begin, and what is in its way; empty for none.
func (a *pods) behind(r *record) string {
	o := r.Namesake(a.entries())
	if o == nil {
		return ""
	}
	text := fmt.Sprintf("waiting for the end of another pod of this name, with the UID %s", o.Pod.UID)
	if why := a.of[o.Pod.UID].report.Trouble; why != "" {
		text += ": " + why
	}
	return text
}

// waits has people told of a pod that goes on waiting for another of its name.
func (a *pods) waits(ctx *kernel.Context[Message], r *record) {
	if o := r.Namesake(a.entries()); o != nil && !r.behind {
		r.behind = true
		ctx.After(behindFor, Behind{UID: r.Pod.UID, Other: o.Pod.UID})
	}
}

// isBehind tells people of a pod that still waits for another. If the other resists, the apiserver has it no more, and
// people know of it, it waits no longer: to delete by force what can't be ended has to help.
func (a *pods) isBehind(ctx *kernel.Context[Message], m Behind) {
	r := a.of[m.UID]
	if r == nil {
		return
	}
	r.behind = false
	why, o := a.behind(r), a.of[m.Other]
	if e := r.Namesake(a.entries()); e == nil || o == nil || e != &o.Entry {
		a.waits(ctx, r)
		return
	}
	if o.GivenUp = m.Again && o.Released() && o.report.Resists; o.GivenUp {
		ctx.Log().Warn().Str("pod", r.name()).Str("uid", string(m.Other)).
			Msg("a pod that is gone from apiserver does not end; another of its name begins beside it")
		why += "; waiting no longer"
	}
	a.deps.Pod.Events.Record(port.Event{Pod: r.Pod, Warning: true, Reason: nameInUse, Message: why, At: ctx.Now()})
	if o.GivenUp {
		a.reconcile(ctx)
		return
	}
	r.behind = true
	ctx.After(behindAgain, Behind{UID: m.UID, Other: m.Other, Again: true})
}
