package eviction

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

func (a *actor) list(ctx *kernel.Context[Message]) {
	a.become(ctx, listing, listDeadline)
	a.ask(ctx)
}

// await looks whether the pods have ended that were evicted for what is short, and measures again: something else may
// run short meanwhile.
func (a *actor) await(ctx *kernel.Context[Message]) {
	a.become(ctx, ending, endPoll)
	a.ask(ctx)
}

func (a *actor) ask(ctx *kernel.Context[Message]) {
	self, round := ctx.Self(), a.round
	a.deps.Pods(func(p []*v1.Pod, holding map[types.UID]bool) { self.Tell(listed{round, p, holding}) })
}

func (a *actor) listed(ctx *kernel.Context[Message], all []*v1.Pod, holding map[types.UID]bool) {
	if a.state != listing && a.state != ending {
		return
	}
	short := a.short[0].Signal.Resource()
	a.endings = a.endings.Ended(all, holding)
	a.overdue(ctx)
	awaits := a.endings.Awaits(short)
	switch {
	case awaits && a.state == listing: // it was evicted for its own limits meanwhile
		a.become(ctx, ending, endPoll)
	case a.state == listing:
		a.candidates(ctx, a.endings.Candidates(all))
	case !awaits:
		a.measure(ctx)
	}
}

// candidates measures those that may be evicted.
func (a *actor) candidates(ctx *kernel.Context[Message], chosen []*v1.Pod) {
	if len(chosen) == 0 {
		a.tried = nil
		a.wait(ctx, &a.reading)
		return
	}
	want := port.PodUse{Disk: true}
	switch a.short[0].Signal.Resource() {
	case v1.ResourceMemory:
		want = port.PodUse{Memory: true}
	case eviction.PIDs:
		want = port.PodUse{Processes: true}
	default: // disk
	}
	a.become(ctx, weighing, 0)
	ctx.After(endPoll, peek{a.round})
	call := a.call("MeasurePods")
	call.Lane += " " + string(a.short[0].Kind()) // one that hangs for disk must not hold up one for memory
	a.effect = portcall.Do(ctx, call,
		func(c context.Context, done func([]eviction.Use, error)) { a.deps.Pressure.Use(c, chosen, want, done) },
		func(id kernel.EffectID, u []eviction.Use, err error) Message { return used{id, chosen, u, err} })
}

// weigh evicts one pod for the most urgent shortage.
func (a *actor) weigh(ctx *kernel.Context[Message], m *used) {
	fail(ctx, &a.podsFailed, m.err)
	a.tried = nil
	s := &a.short[0]
	if !a.endings.Awaits(s.Signal.Resource()) {
		left, uses := a.endings.Rest(m.pods, m.uses)
		if m.err != nil && !s.Seen(&a.reading, uses) {
			left = nil // any pod would do
		}
		if v, is := a.deps.Policy.Choose(s, &a.reading, left, uses, ctx.Now()); is {
			a.tellAge(ctx.Now())
			a.evict(ctx, &v, s.Signal.Resource())
		}
	}
	if a.endings.Awaits(s.Signal.Resource()) {
		a.become(ctx, ending, endPoll)
		return
	}
	a.wait(ctx, &a.reading)
}

func (a *actor) tellAge(now time.Time) {
	if a.deps.Counts == nil || a.reading.At.IsZero() {
		return
	}
	for i := range a.short {
		a.deps.Counts.StatsAge(string(a.short[i].Signal), max(0, now.Sub(a.reading.At)))
	}
}

// evict ends a pod, so that some of a resource is freed.
func (a *actor) evict(ctx *kernel.Context[Message], v *eviction.Victim, of v1.ResourceName) {
	a.event(ctx, v.Pod, eviction.Reason, v.Stop.Message, v.Annotations)
	a.endings = a.endings.Begin(*v, of, ctx.Now())
	if a.deps.Counts != nil {
		a.deps.Counts.Evicted(v.Signal)
	}
	a.deps.Evict(podset.Evict{UID: v.Pod.UID, Stop: v.Stop})
}

// overdue names the pods whose end takes too long in the log, and ends them by force. Their event is told by their own
// actors (decide/podplan).
func (a *actor) overdue(ctx *kernel.Context[Message]) {
	var late []eviction.Victim
	a.endings, late = a.endings.Overdue(ctx.Now())
	for i := range late {
		v := &late[i]
		ctx.Log().Warn().Str("pod", v.Pod.Namespace+"/"+v.Pod.Name).
			Msg("evicted pod has not terminated in time; stopping it by force; other pods may be evicted meanwhile: " +
				"see troupe tree for the call that hangs")
		a.deps.Evict(podset.Evict{UID: v.Pod.UID, Stop: v.Stop})
	}
}

func (a *actor) event(
	ctx *kernel.Context[Message], p *v1.Pod, reason, message string, annotations smallmap.Map[string, string],
) {
	e := port.Event{Pod: p, Warning: true, Reason: reason, Message: message, Annotations: annotations, At: ctx.Now()}
	if p == nil {
		e.Node = a.deps.NodeName
	}
	a.deps.Events.Record(e)
}
