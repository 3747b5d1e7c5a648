package eviction

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// limits is the check of pods' own limits. It waits for nothing that the shortages of the node wait for.
//
//	resting ──timer──► reading ──► asking ──some may be over their limits──► counting ──► resting
//	                                 └──none may be, or no answer──► resting
type limits struct {
	state  limitState
	round  int
	effect kernel.EffectID
	// reading says how full file systems are, looks who has to be measured.
	reading eviction.Reading
	looks   eviction.Looks
	// unfinished are the pods whose files can't all be counted.
	unfinished eviction.Unfinished
	// began is when the check did. failed: a failure of it was logged.
	began  time.Time
	failed bool
}

type limitState uint8

const (
	off limitState = iota
	resting
	reading
	asking
	counting
)

func (s limitState) String() string {
	return [...]string{"off", "resting", "reading", "asking", "counting"}[s]
}

// limitPeriod is the time between checks of pods with limits of disk.
const limitPeriod = 10 * time.Second

// become begins a state that lasts at most d; 0 for one with a deadline of its own.
func (l *limits) become(ctx *kernel.Context[Message], s limitState, d time.Duration) {
	l.state = s
	l.round++
	if d > 0 {
		ctx.After(d, lookLimits{l.round})
	}
}

// rest waits for the next check.
func (l *limits) rest(ctx *kernel.Context[Message]) {
	took := min(max(ctx.Now().Sub(l.began), 0), limitPeriod-time.Second)
	l.become(ctx, resting, limitPeriod-took)
}

// checkLimits does what a message means for the check.
func (a *actor) checkLimits(ctx *kernel.Context[Message], m Message) {
	l := &a.limits
	switch m := m.(type) {
	case lookLimits:
		switch {
		case m.round != l.round:
		case l.state == resting:
			l.began = ctx.Now()
			l.become(ctx, reading, 0)
			a.read(ctx)
		case l.state == asking:
			l.rest(ctx)
		}
	case limited:
		if l.state == asking && m.round == l.round {
			a.endings = a.endings.Ended(m.pods, m.holding)
			a.overdue(ctx)
			var due []*v1.Pod
			l.looks, due = l.looks.Due(a.endings.Limited(m.pods), &l.reading, ctx.Now())
			a.count(ctx, due)
		}
	case usedDisk:
		if l.state == counting && m.id == l.effect {
			fail(ctx, &l.failed, m.err)
			if m.err == nil {
				l.looks = l.looks.Measured(m.pods, m.uses, l.began)
			}
			a.tellUnfinished(ctx, &m)
			a.overLimits(ctx, &m)
			l.rest(ctx)
		}
	case look, peek, noticed, arm, left, reclaimed, listed, used: // Receive has them
	}
}

// limitsRead goes on with a measurement of the node.
func (a *actor) limitsRead(ctx *kernel.Context[Message], r *eviction.Reading) {
	l := &a.limits
	if l.state != reading {
		return
	}
	l.reading = *r
	l.become(ctx, asking, listDeadline)
	self, round := ctx.Self(), l.round
	a.deps.Pods(func(p []*v1.Pod, holding map[types.UID]bool) { self.Tell(limited{round, p, holding}) })
}

// count measures what pods take of disks.
func (a *actor) count(ctx *kernel.Context[Message], chosen []*v1.Pod) {
	l := &a.limits
	if len(chosen) == 0 {
		l.rest(ctx)
		return
	}
	l.become(ctx, counting, 0)
	l.effect = portcall.Do(ctx, a.call("MeasureLimits"),
		func(c context.Context, done func([]eviction.Use, error)) {
			a.deps.Pressure.Use(c, chosen, port.PodUse{Disk: true, Soon: true}, done)
		},
		func(id kernel.EffectID, u []eviction.Use, err error) Message { return usedDisk{id, chosen, u, err} })
}

// tellUnfinished names what can't be counted to its end in the log.
func (a *actor) tellUnfinished(ctx *kernel.Context[Message], m *usedDisk) {
	var tell []eviction.Part
	a.limits.unfinished, tell = a.limits.unfinished.Measured(m.pods, m.uses, ctx.Now())
	for _, part := range tell {
		what := "the pod's directory beside its volumes"
		if part.Volume != "" {
			what = "volume " + part.Volume
		}
		ctx.Log().Warn().Str("pod", part.Pod.Namespace+"/"+part.Pod.Name).Str("files", what).
			Uint64("counted", part.Inodes).Uint64("bytes", part.Bytes).
			Msg("cannot count all files of a pod with an ephemeral-storage limit: they are too many for this disk, or nested " +
				"too deep; the pod is evicted if the counted files exceed the limit; remove some files, or delete the pod")
	}
}

// overLimits evicts all pods that are over their limits.
func (a *actor) overLimits(ctx *kernel.Context[Message], m *usedDisk) {
	left, uses := a.endings.Rest(m.pods, m.uses)
	for i, p := range left {
		if v, is := eviction.OverLimit(p, &uses[i], ctx.Now()); is {
			a.evict(ctx, &v, v1.ResourceEphemeralStorage)
		}
	}
}
