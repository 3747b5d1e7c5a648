// Package eviction is the actor that protects the node while memory, disk or process IDs run short. It measures,
// shows the pressure, gives up images and dead containers, and then evicts one pod at a time. Beside that, whatever
// runs short, it evicts pods that use more disk than their limits (limits.go). The decisions are in decide/eviction.
//
//	eviction ──Left, Use, WatchMemory──► host       ──Find──► podview
//	eviction ──Evict, NodePressure──► podset          ──Pressure──► nodestatus
//
// After a restart, conditions come back with the first measurement. What is lost is how long a soft threshold was
// met, how long a condition stays after the pressure has ended, and which pods were evicted: one that has not ended
// may be evicted again, which changes nothing.
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
)

// Message is what the eviction actor understands. Results of other rounds are late and are ignored.
//
//sumtype:decl
type Message interface{ isEvictionMessage() }

// look is this actor's own timer for the next step.
type look struct{ round int }

// peek is this actor's own timer: it measures the node while something goes on that may take long.
type peek struct{ round int }

// noticed: the kernel says that memory may run short.
type noticed struct {
	id  kernel.EffectID
	err error
}

// arm is this actor's own timer: it asks the kernel for the next notice.
type arm struct{}

// left is a measurement, for both who wait for one.
type left struct {
	id      kernel.EffectID
	reading eviction.Reading
	err     error
}

// reclaimed: one kind of what the node can do without was removed, or not. Lost: the timer of the round comes.
type reclaimed struct{ round int }

// listed are the pods. Lost: the timer of the round comes.
type listed struct {
	round int
	pods  []*v1.Pod
	// holding are those of which something runs or is mounted.
	holding map[types.UID]bool
}

// used is what pods use, in their order.
type used struct {
	id   kernel.EffectID
	pods []*v1.Pod
	uses []eviction.Use
	err  error
}

// lookLimits is this actor's own timer for the next step of the check of limits.
type lookLimits struct{ round int }

// limited are the pods, for the check of limits. Lost: its timer comes.
type limited listed

// usedDisk is what pods with limits use.
type usedDisk used

func (look) isEvictionMessage()       {}
func (peek) isEvictionMessage()       {}
func (noticed) isEvictionMessage()    {}
func (arm) isEvictionMessage()        {}
func (left) isEvictionMessage()       {}
func (reclaimed) isEvictionMessage()  {}
func (listed) isEvictionMessage()     {}
func (used) isEvictionMessage()       {}
func (lookLimits) isEvictionMessage() {}
func (limited) isEvictionMessage()    {}
func (usedDisk) isEvictionMessage()   {}

// Counts is told of evictions, for metrics. It must not block.
type Counts interface {
	// Evicted is told of each evicted pod, by signal.
	Evicted(signal string)
	// StatsAge is told how old the measurement was that an eviction was decided on, for each signal whose threshold was
	// met.
	StatsAge(signal string, age time.Duration)
}

// Deps are what the actor needs.
type Deps struct {
	NodeName string
	Pressure port.Pressure
	Policy   eviction.Policy
	Events   port.Recorder
	// Pods asks for all pods, each with its status, and of which of them something runs or is mounted. It must not block.
	Pods func(reply func(all []*v1.Pod, holding map[types.UID]bool))
	// Evict ends a pod. Show tells podset and the node's object which resources run short.
	Evict func(podset.Evict)
	Show  func(eviction.Conditions)
	// ReclaimImages and ReclaimContainers remove what no pod uses. Nil: there is nothing to remove.
	ReclaimImages, ReclaimContainers func(reply func(error))
	// Counts is nil for none.
	Counts   Counts
	Deadline time.Duration
}

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] { return &actor{deps: deps} }
}

// actor is the state of the actor.
//
//	waiting ──timer, notice──► measuring ──enough──► waiting
//	measuring ──short of disk──► reclaiming ──► measuring again
//	measuring ──still short──► listing ──► weighing ──one pod is evicted──► ending
//	measuring ──short of what an evicted pod will free──► ending ──it has ended, or a second has passed──► measuring
//
// The timer of a round bounds reclaiming and listing, whose answers may be lost. The node is measured each second
// while it is reclaiming or weighing, too. When something more urgent runs short, or nothing any more, that is
// given up.
type actor struct {
	deps   *Deps
	state  state
	round  int
	effect kernel.EffectID
	// measurement is the one that is under way.
	measurement kernel.Call
	// watch is the request for a notice that is under way, 0 if there is none, and threshold what it is about.
	watch     kernel.EffectID
	threshold uint64
	// armed: the kernel was asked for a notice, or a timer to ask it runs.
	armed bool

	memory eviction.Memory
	shown  eviction.Conditions
	told   bool
	// reading is the last one, short are its shortages. tried are those for which what can be reclaimed was, since
	// a pod was last weighed or nothing was short.
	reading eviction.Reading
	short   []eviction.Shortage
	tried   map[eviction.Signal]bool
	pending int
	// said is when people were last told of a shortage.
	said time.Time
	// endings are the pods that were evicted, by this or by the check of limits.
	endings eviction.Endings
	limits  limits
	// failed: a failure to measure the node, or pods, was logged.
	failed, podsFailed bool
}

type state uint8

const (
	waiting state = iota
	measuring
	reclaiming
	listing
	weighing
	ending
)

func (s state) String() string {
	return [...]string{"waiting", "measuring", "reclaiming", "listing", "weighing", "ending"}[s]
}

const (
	reclaimDeadline = 2 * time.Minute
	listDeadline    = 5 * time.Second
	// endPoll is the time between two looks at pods that were evicted.
	endPoll = time.Second
	// noticePeriod is the time from one notice of the kernel to the next. shortPeriod is that while memory is short:
	// then it would be noticed at once.
	noticePeriod, shortPeriod = 100 * time.Millisecond, time.Second
)

// Start implements kernel.Behavior.
func (a *actor) Start(ctx *kernel.Context[Message]) {
	for _, e := range ctx.InFlight() {
		ctx.Cancel(e.ID)
	}
	a.arm(ctx)
	a.measure(ctx)
	if a.deps.Policy.LocalStorage {
		a.limits.become(ctx, resting, limitPeriod)
	}
}

// Receive implements kernel.Behavior.
func (a *actor) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case look:
		if m.round == a.round {
			a.timer(ctx)
		}
	case peek:
		if m.round == a.round {
			a.read(ctx)
			ctx.After(endPoll, m)
		}
	case noticed:
		if m.id == a.watch && port.KindOf(m.err) != port.Unsupported {
			a.watch = 0
			ctx.After(noticePeriod, arm{})
			if m.err == nil {
				a.hurry(ctx)
			}
		}
	case arm:
		a.arm(ctx)
	case left:
		if a.measurement.Take(m.id) {
			fail(ctx, &a.failed, m.err)
			a.limitsRead(ctx, &m.reading)
			switch a.state {
			case measuring:
				a.measured(ctx, &m.reading)
			case reclaiming, weighing:
				a.peeked(ctx, &m.reading)
			case waiting, listing, ending: // it was for the check of limits
			}
		}
	case reclaimed:
		if a.state == reclaiming && m.round == a.round {
			if a.pending--; a.pending == 0 {
				a.measure(ctx)
			}
		}
	case listed:
		if m.round == a.round {
			a.listed(ctx, m.pods, m.holding)
		}
	case used:
		if a.state == weighing && m.id == a.effect {
			a.weigh(ctx, &m)
		}
	case lookLimits, limited, usedDisk:
		a.checkLimits(ctx, m)
	}
}

// become begins a state that lasts at most d.
func (a *actor) become(ctx *kernel.Context[Message], s state, d time.Duration) {
	a.state = s
	a.round++
	if d > 0 {
		ctx.After(d, look{a.round})
	}
}

// timer ends a state that takes no longer.
func (a *actor) timer(ctx *kernel.Context[Message]) {
	switch a.state {
	case waiting, reclaiming, listing, ending:
		a.measure(ctx)
	case measuring, weighing: // their effects have deadlines
	}
}

// hurry measures at once. While it is measuring or listing, the next measurement comes soon enough.
func (a *actor) hurry(ctx *kernel.Context[Message]) {
	switch a.state {
	case waiting, ending:
		a.measure(ctx)
	case reclaiming, weighing:
		a.read(ctx)
	case measuring, listing:
	}
}

func (a *actor) arm(ctx *kernel.Context[Message]) {
	if !a.deps.Policy.Notices() || !a.reading.Memory.Known {
		return
	}
	a.armed = true
	threshold, is := a.deps.Policy.Notice(&a.reading)
	if !is {
		ctx.After(shortPeriod, arm{})
		return
	}
	a.threshold = threshold
	a.watch = portcall.Do0(ctx, kernel.Effect[Message]{
		Kind: "WatchMemory", Lane: "notice", Deadline: kernel.NoDeadline, Patience: kernel.NoDeadline, Idles: true,
	}, func(c context.Context, done func(error)) { a.deps.Pressure.WatchMemory(c, threshold, done) },
		func(id kernel.EffectID, err error) Message { return noticed{id, err} })
}

func (a *actor) measure(ctx *kernel.Context[Message]) {
	a.become(ctx, measuring, 0)
	a.read(ctx)
}

// read measures, unless that is under way.
func (a *actor) read(ctx *kernel.Context[Message]) {
	if !a.measurement.Busy() {
		a.measurement.Begin(portcall.Do(ctx, a.call("MeasureNode"), a.deps.Pressure.Left,
			func(id kernel.EffectID, r eviction.Reading, err error) Message { return left{id, r, err} }))
	}
}

func (a *actor) call(kind string) kernel.Effect[Message] {
	return kernel.Effect[Message]{Kind: kind, Lane: kind, Deadline: a.deps.Deadline}
}

func (a *actor) wait(ctx *kernel.Context[Message], before *eviction.Reading) {
	a.become(ctx, waiting, a.deps.Policy.Wait(before, &a.reading))
}

// fail logs a failure, once until it is over.
func fail(ctx *kernel.Context[Message], failed *bool, err error) {
	if err != nil && !*failed {
		ctx.Log().Warn().Str("error", err.Error()).
			Msg("cannot measure all eviction signals of the node; pods are evicted only for the measured ones; retrying")
	}
	*failed = err != nil
}

func (a *actor) measured(ctx *kernel.Context[Message], r *eviction.Reading) {
	before := a.reading
	a.note(ctx, r)
	a.act(ctx, &before)
}

// peeked goes on with what the node does against a shortage, unless another has become more urgent: the removal of
// images may take minutes, and memory run out in a second.
func (a *actor) peeked(ctx *kernel.Context[Message], r *eviction.Reading) {
	before, of := a.reading, a.short[0].Kind()
	a.note(ctx, r)
	if len(a.short) > 0 && a.short[0].Kind() == of {
		return
	}
	if a.state == weighing {
		ctx.Cancel(a.effect)
	}
	a.act(ctx, &before)
}

// note takes in a measurement, and shows what it means.
func (a *actor) note(ctx *kernel.Context[Message], r *eviction.Reading) {
	before := a.reading
	a.reading = *r
	threshold, is := a.deps.Policy.Notice(r)
	if a.watch != 0 && (is && threshold != a.threshold || before.Memory.Capacity != r.Memory.Capacity ||
		before.Allocatable.Capacity != r.Allocatable.Capacity) { // the kernel was asked about other limits
		ctx.Cancel(a.watch)
		a.watch, a.armed = 0, false
	}
	if !a.armed {
		a.arm(ctx)
	}
	var shown eviction.Conditions
	a.memory, shown, a.short = a.deps.Policy.Assess(a.memory, &a.reading, ctx.Now())
	if shown != a.shown || !a.told {
		a.shown, a.told = shown, true
		a.deps.Show(shown)
	}
}

// act does the next step against what runs short.
func (a *actor) act(ctx *kernel.Context[Message], before *eviction.Reading) {
	if len(a.short) == 0 {
		a.tried = nil
		a.wait(ctx, before)
		return
	}
	s := &a.short[0]
	if a.overdue(ctx); a.endings.Awaits(s.Signal.Resource()) {
		a.await(ctx)
		return
	}
	if !a.tried[s.Signal] {
		if now := ctx.Now(); a.said.IsZero() || now.Sub(a.said) >= eviction.Longest || now.Before(a.said) {
			a.said = now
			a.event(ctx, nil, "EvictionThresholdMet", "Attempting to reclaim "+string(s.Signal.Resource()), nil)
		}
		if a.reclaim(ctx, s) {
			return
		}
	}
	a.list(ctx)
}

// reclaim removes what no pod uses, if that may help.
func (a *actor) reclaim(ctx *kernel.Context[Message], s *eviction.Shortage) bool {
	switch s.Signal.Resource() {
	case v1.ResourceMemory, eviction.PIDs:
		return false
	default: // disk
	}
	if a.tried == nil {
		a.tried = map[eviction.Signal]bool{}
	}
	a.tried[s.Signal] = true
	a.become(ctx, reclaiming, reclaimDeadline)
	ctx.After(endPoll, peek{a.round})
	self, round := ctx.Self(), a.round
	a.pending = 0
	images := a.deps.ReclaimImages
	if !a.reading.Freed(s.Signal) {
		images = nil
	}
	for _, f := range [...]func(func(error)){a.deps.ReclaimContainers, images} {
		if f != nil {
			a.pending++
			f(func(error) { self.Tell(reclaimed{round}) })
		}
	}
	return a.pending > 0
}
