// Package oom is the actor that reports what the kernel's OOM killer does: an event of the node when the machine
// runs out of memory, and one of a pod when a process in a container was killed and the container goes on. The
// status of a container that ended says OOMKilled, as the runtime does. The decisions are in decide/oom.
//
//	oom ──Watch, Count──► host       ──Find──► podview
//
// After a restart, kills that waited for their event are lost.
package oom

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/oom"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// Message is what the actor understands. Results of other calls than the last are late and are ignored.
//
//sumtype:decl
type Message interface{ isOOMMessage() }

// killed are kills that the kernel told of.
type killed struct {
	id    kernel.EffectID
	kills []oom.Kill
	err   error
}

// again is this actor's own timer for the next call of the host.
type again struct{}

// due is this actor's own timer for the next decision.
type due struct{ round int }

// listed are the pods. Lost: the timer comes again.
type listed struct{ pods []*v1.Pod }

// counted is what the kernel's counters say: that of the machine, and with whole those of pods.
type counted struct {
	id     kernel.EffectID
	whole  bool
	pods   []*v1.Pod
	counts oom.Counts
	err    error
}

func (killed) isOOMMessage()  {}
func (again) isOOMMessage()   {}
func (due) isOOMMessage()     {}
func (listed) isOOMMessage()  {}
func (counted) isOOMMessage() {}

// Deps are what the actor needs.
type Deps struct {
	NodeName string
	Kills    port.OOMKills
	Events   port.Recorder
	// Pods asks for all pods, each with its status. It must not block.
	Pods     func(reply func([]*v1.Pod))
	Deadline time.Duration
}

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] { return &actor{deps: deps} }
}

// actor is the state of the actor.
//
//	watching ──kills──► watching ──the host can't tell──► counting ──it can't count──► blind
//
// In each state the kills so far are decided on when the ledger says so.
type actor struct {
	deps   *Deps
	state  state
	effect kernel.EffectID
	ledger oom.Ledger
	// round is that of the last timer for a decision.
	round int
	// before are the last counts; known: there were some. pending: the pods are to be counted when they are listed.
	before  oom.Counts
	known   bool
	pending bool
	failed  bool // a failure was logged
}

// Check implements kernel.Checked.
func (a *actor) Check() error { return a.ledger.Check() }

// state is where kills are known from.
//
//	watching ──the kernel's log can't be read──► counting ──nor are there counters──► blind
type state uint8

const (
	watching state = iota
	counting
	blind
)

func (s state) String() string { return [...]string{"watching", "counting", "blind"}[s] }

const (
	// pause is the least time between two looks at the kernel's log, so that a storm of kills costs little.
	pause = 100 * time.Millisecond
	// retry is the time after a failure, countPeriod that between looks at the kernel's counter.
	retry       = 10 * time.Second
	countPeriod = 10 * time.Second
	// askAgain is when the pods are asked for again, if there was no answer.
	askAgain = 5 * time.Second
)

// Start implements kernel.Behavior.
func (a *actor) Start(ctx *kernel.Context[Message]) {
	for _, e := range ctx.InFlight() {
		ctx.Cancel(e.ID)
	}
	a.look(ctx)
}

// Receive implements kernel.Behavior.
func (a *actor) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case killed:
		if m.id == a.effect {
			a.killed(ctx, &m)
		}
	case again:
		a.look(ctx)
	case due:
		if m.round == a.round {
			a.ask(ctx)
		}
	case listed:
		a.say(ctx, a.ledger.Decide(m.pods, ctx.Now()))
		if a.pending {
			a.pending = false
			a.count(ctx, true, m.pods)
		}
		a.plan(ctx)
	case counted:
		if m.id == a.effect {
			a.counted(ctx, &m)
		}
	}
}

// look asks the host for the next kills.
func (a *actor) look(ctx *kernel.Context[Message]) {
	switch a.state {
	case watching:
		a.effect = portcall.Do(ctx, kernel.Effect[Message]{
			Kind: "WatchOOM", Lane: "watch", Deadline: kernel.NoDeadline, Patience: kernel.NoDeadline, Idles: true,
		}, a.deps.Kills.Watch, func(id kernel.EffectID, k []oom.Kill, err error) Message { return killed{id, k, err} })
	case counting:
		a.count(ctx, false, nil)
	case blind:
	}
}

func (a *actor) killed(ctx *kernel.Context[Message], m *killed) {
	switch {
	case m.err == nil:
		a.failed = false
		a.add(ctx, m.kills)
		ctx.After(pause, again{})
	case port.KindOf(m.err) == port.Unsupported:
		a.become(ctx, counting, m.err, "no SystemOOM events: the kernel's log cannot be read; give the agent /dev/kmsg and "+
			"CAP_SYSLOG; events of pods do not name the process that was killed")
		a.count(ctx, false, nil)
	default:
		a.fail(ctx, m.err)
	}
}

func (a *actor) become(ctx *kernel.Context[Message], s state, err error, text string) {
	a.state = s
	ctx.Log().Warn().Str("error", err.Error()).Msg(text)
}

// fail logs a failure, once until it is over, and tries again later.
func (a *actor) fail(ctx *kernel.Context[Message], err error) {
	if !a.failed {
		ctx.Log().Warn().Str("error", err.Error()).Msg("cannot read OOM kills from the kernel log; retrying")
	}
	a.failed = true
	ctx.After(retry, again{})
}

func (a *actor) add(ctx *kernel.Context[Message], kills []oom.Kill) {
	a.say(ctx, a.ledger.Add(kills, ctx.Now()))
	a.plan(ctx)
}

// plan sets the timer for the next decision.
func (a *actor) plan(ctx *kernel.Context[Message]) {
	a.round++
	at, is := a.ledger.Next()
	if ask := ctx.Now().Add(askAgain); a.pending && (!is || ask.Before(at)) {
		at, is = ask, true
	}
	if is {
		ctx.After(max(at.Sub(ctx.Now()), 0), due{a.round})
	}
}

// ask asks for the pods, and sets a timer for the case that no answer comes.
func (a *actor) ask(ctx *kernel.Context[Message]) {
	self := ctx.Self()
	a.round++
	ctx.After(askAgain, due{a.round})
	a.deps.Pods(func(p []*v1.Pod) { self.Tell(listed{p}) })
}

func (a *actor) say(ctx *kernel.Context[Message], list []oom.Notice) {
	for _, n := range list {
		e := port.Event{
			Pod: n.Pod, Container: n.Container, Warning: true, Reason: n.Reason, Message: n.Message, At: ctx.Now(),
		}
		if n.Pod == nil {
			e.Node = a.deps.NodeName
		}
		a.deps.Events.Record(e)
	}
}

// count reads the kernel's counters: that of the machine, and with whole those of pods.
func (a *actor) count(ctx *kernel.Context[Message], whole bool, pods []*v1.Pod) {
	a.effect = portcall.Do(ctx, kernel.Effect[Message]{Kind: "CountOOM", Lane: "count", Deadline: a.deps.Deadline},
		func(c context.Context, done func(oom.Counts, error)) { a.deps.Kills.Count(c, pods, done) },
		func(id kernel.EffectID, n oom.Counts, err error) Message { return counted{id, whole, pods, n, err} })
}

func (a *actor) counted(ctx *kernel.Context[Message], m *counted) {
	switch {
	case m.err != nil && port.KindOf(m.err) == port.Unsupported:
		a.become(ctx, blind, m.err, "events say nothing of the kernel's OOM killer: it does not count either")
		return
	case m.err != nil:
		a.fail(ctx, m.err)
		return
	}
	a.failed = false
	if !m.whole {
		if a.known && m.counts.All == a.before.All {
			ctx.After(countPeriod, again{})
			return
		}
		a.before.All = m.counts.All
		a.pending = true
		a.ask(ctx)
		return
	}
	if a.known { // the first counts are of kills before the agent began
		a.add(ctx, m.counts.Since(a.before, oom.Running(m.pods)))
	}
	a.known, a.before.Containers = true, m.counts.Containers
	ctx.After(countPeriod, again{})
}
