package shutdown

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/shutdown"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/port"
)

// Counts is told of shutdowns of the machine, for metrics. It must not block.
type Counts interface {
	// ShutDown is told when the last shutdown began and ended; the end is zero until it has ended.
	ShutDown(begun, ended time.Time)
}

// Deps are what the actor needs.
type Deps struct {
	NodeName    string
	Inhibitor   port.Inhibitor
	Checkpoints port.Checkpoints
	Events      port.Recorder
	// Groups is how the node shuts down.
	Groups shutdown.Groups
	// ShuttingDown publishes whether the machine is shutting down.
	ShuttingDown func(on bool)
	// Pods asks podset for its state. reply does no more than send a message.
	Pods func(reply func(podset.Inventory))
	// Evict ends a pod.
	Evict func(podset.Evict)
	// Unwritten asks status how many pods have a status that the apiserver has not acknowledged; nil without an
	// apiserver. reply is as for Pods.
	Unwritten func(reply func(int))
	// Counts is nil for none.
	Counts Counts
	// Backoff is for a service of the machine that does not answer.
	Backoff backoff.Policy
	// Deadline bounds a call.
	Deadline time.Duration
}

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] { return &actor{deps: deps} }
}

const (
	// Look is the time between two looks at the pods while they end.
	Look = 50 * time.Millisecond
	// Patience is how long the shutdown waits, after the periods of all groups, for pods that have been killed
	// and for the apiserver to acknowledge the statuses.
	Patience = 5 * time.Second
	// hearing is how long the watch may be silent at first, before the machine counts as not shutting down.
	hearing = 2 * time.Second
	// lostAfter is when an Evict without effect counts as lost.
	lostAfter = 2 * time.Second
)

// state is how far the actor has come.
//
//	unknown ──not shutting down──► locking ──locked──► ready
//	   │                              │                  │
//	   └─────────shutting down────────┴──────────────────┴──► ending ──last group──► writing ──Patience──► over
//
//	ending, writing, over ──cancelled──► locking
//
// unknown: the watch has said nothing yet. locking: there is no lock, and it is tried to get one. over: the lock
// was given back, and the machine goes down.
type state uint8

const (
	unknown state = iota
	locking
	ready
	ending
	writing
	over
)

var states = [...]string{"unknown", "locking", "ready", "ending", "writing", "over"}

func (s state) String() string {
	if int(s) < len(states) {
		return states[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

type actor struct {
	deps  *Deps
	state state
	// watch is the current watch, watches their number so far, failures how many of them failed in a row.
	watch             kernel.EffectID
	watches, failures int
	// warned: the failure of the watch was logged. answered: podset and nodestatus were told.
	warned, answered bool
	lock
	round
	journal
}

// Start implements kernel.Behavior.
func (a *actor) Start(ctx *kernel.Context[Message]) {
	a.load(ctx)
	a.open(ctx)
	ctx.After(hearing, unheard{})
}

// Receive implements kernel.Behavior.
func (a *actor) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case told:
		if m.id == a.watch {
			a.heard(ctx, m.preparing)
		}
	case ended:
		if m.id == a.watch {
			a.closed(ctx, m.err)
		}
	case reopen:
		a.open(ctx)
	case unheard:
		a.answer()
	case relock:
		if a.state == locking && !a.locking.Busy() {
			a.inhibit(ctx)
		}
	case locked:
		a.locked(ctx, m)
	case delay:
		a.delayRead(ctx, m)
	case raised:
		a.raised(ctx, m)
	case released:
		if m.err != nil {
			ctx.Log().Warn().Str("error", m.err.Error()).
				Msg("cannot release the shutdown inhibitor lock: the machine goes down after InhibitDelayMaxSec")
		}
	case look:
		a.look(ctx, m)
	case seen:
		a.seen(ctx, m)
	case unwritten:
		a.unwritten(ctx, m)
	case journaled:
		a.journaled(ctx, m.Event)
	}
}

// Overflowed implements kernel.OverflowHandler: what the watch said may be lost.
func (a *actor) Overflowed(ctx *kernel.Context[Message]) { a.open(ctx) }

const watchKind = "WatchShutdown"

// open starts a watch and ends any other.
func (a *actor) open(ctx *kernel.Context[Message]) {
	for _, e := range ctx.InFlight() {
		if e.Kind == watchKind {
			ctx.Cancel(e.ID)
		}
	}
	a.watches++
	self, in := ctx.Self(), a.deps.Inhibitor
	a.watch = ctx.Do(kernel.Effect[Message]{
		Kind: watchKind, Lane: fmt.Sprintf("watch/%d/%d", ctx.Incarnation(), a.watches), Standing: true,
		Run: func(c context.Context, id kernel.EffectID, done func(Message)) {
			in.Watch(c, func(preparing bool) { self.Tell(told{id, preparing}) }, func(err error) { done(ended{id, err}) })
		},
	})
}

// closed handles that the service went away, or is not there.
func (a *actor) closed(ctx *kernel.Context[Message], err error) {
	a.failures++
	if !a.warned {
		a.warned = true
		ctx.Log().Warn().Str("error", err.Error()).Msg("cannot watch for shutdowns of the machine: until systemd-logind " +
			"answers on the system bus, pods are not ended in order when the machine shuts down; retrying")
	}
	a.answer()
	ctx.After(backoff.Retry(a.deps.Backoff, a.failures), reopen{})
}

// answer tells others, unless they were told already.
func (a *actor) answer() {
	if !a.answered {
		a.tell()
	}
}

func (a *actor) tell() {
	a.answered = true
	a.deps.ShuttingDown(a.down())
}

// down says whether the machine is shutting down.
func (a *actor) down() bool {
	switch a.state {
	case ending, writing, over:
		return true
	case unknown, locking, ready:
	}
	return false
}

// heard handles what the watch says: at its beginning, and with each change.
func (a *actor) heard(ctx *kernel.Context[Message], preparing bool) {
	if a.warned {
		ctx.Log().Info().Msg("watching for shutdowns of the machine again")
	}
	a.failures, a.warned = 0, false
	switch a.state {
	case unknown, locking, ready:
		if preparing {
			a.becomeEnding(ctx)
		} else {
			a.becomeLocking(ctx) // also after a restart of the service, which may have lost the lock
		}
	case ending, writing, over:
		if preparing {
			return // the watch began again
		}
		ctx.Log().Info().Msg("the shutdown of the machine was cancelled; pods that were ended do not come back by themselves")
		a.record(ctx, "Shutdown manager detected shutdown cancellation")
		a.becomeLocking(ctx)
	}
}

func (a *actor) becomeLocking(ctx *kernel.Context[Message]) {
	a.round = round{number: a.number + 1}
	a.state = locking
	a.tell()
	a.inhibit(ctx)
}

// record records an event of the node, as the kubelet does.
func (a *actor) record(ctx *kernel.Context[Message], message string) {
	a.deps.Events.Record(port.Event{Node: a.deps.NodeName, Reason: "Shutdown", Message: message, At: ctx.Now()})
}

// name is a pod for people.
func name(p *podset.Fact) string { return p.Pod.Namespace + "/" + p.Pod.Name }

// asked is when this incarnation asked a pod to end.
type asked map[types.UID]time.Time
