// Package eviction is the actor that protects the node while memory, disk or process IDs run short. It measures,
// shows the pressure, gives up images and dead containers, and then evicts one pod at a time. It also evicts
// pods that use more disk than their limits. The decisions are in decide/eviction.
//
//	eviction ──Left, Use, WatchMemory──► host       ──Find──► podview
//	eviction ──Evict, NodePressure──► pods          ──Pressure──► nodestatus
//
// After a restart, conditions come back with the first measurement. What is lost is how long a soft threshold was
// met, and how long a condition stays after the pressure has ended.
package eviction

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pods"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// Message is what the eviction actor understands. Results of other rounds are late and are ignored.
//
//sumtype:decl
type Message interface{ isEvictionMessage() }

// Resend asks for the pressure again. From pods, after a restart.
type Resend struct{}

// look is this actor's own timer for the next step.
type look struct{ round int }

// noticed: the kernel says that memory may run short.
type noticed struct {
	id  kernel.EffectID
	err error
}

// arm is this actor's own timer: it asks the kernel for the next notice.
type arm struct{}

// left is a measurement.
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
}

// used is what pods use, in their order.
type used struct {
	id   kernel.EffectID
	pods []*v1.Pod
	uses []eviction.Use
	err  error
}

func (Resend) isEvictionMessage()    {}
func (look) isEvictionMessage()      {}
func (noticed) isEvictionMessage()   {}
func (arm) isEvictionMessage()       {}
func (left) isEvictionMessage()      {}
func (reclaimed) isEvictionMessage() {}
func (listed) isEvictionMessage()    {}
func (used) isEvictionMessage()      {}

// Deps are what the actor needs.
type Deps struct {
	NodeName string
	Pressure port.Pressure
	Policy   eviction.Policy
	Events   port.Recorder
	// Pods asks for all pods, each with its status. It must not block.
	Pods func(reply func([]*v1.Pod))
	// Evict ends a pod. Show tells pods and the node's object which resources run short.
	Evict func(pods.Evict)
	Show  func(eviction.Conditions)
	// ReclaimImages and ReclaimContainers remove what no pod uses. Nil: there is nothing to remove.
	ReclaimImages, ReclaimContainers func(reply func(error))
	// Evicted, if set, counts evictions by signal. It must not block.
	Evicted  func(signal string)
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
//	measuring ──still short, or limits are due──► listing ──► weighing ──one pod is evicted──► ending
//	ending ──it has ended, or took too long──► measuring
//
// The timer of a round bounds reclaiming and listing, whose answers may be lost.
type actor struct {
	deps   *Deps
	state  state
	round  int
	effect kernel.EffectID
	// watch is the request for a notice that is under way, 0 if there is none.
	watch kernel.EffectID
	// armed: the kernel was asked for a notice, or a timer to ask it runs.
	armed bool

	memory eviction.Memory
	shown  eviction.Conditions
	told   bool
	// reading is the last one, short are its shortages. tried: what can be reclaimed was, for this shortage.
	reading eviction.Reading
	short   []eviction.Shortage
	tried   bool
	pending int
	// said is when people were last told of a shortage.
	said time.Time
	// limits is when limits of disk are checked next.
	limits time.Time
	// victim is the pod that was evicted last; until bounds the wait for its end.
	victim *v1.Pod
	until  time.Time
	failed bool // a failure was logged
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
	// endPoll is the time between two looks at a pod that is evicted, endWait how long one waits for it after its
	// grace period.
	endPoll = time.Second
	endWait = 30 * time.Second
	// limitPeriod is the time between checks of pods with limits of disk.
	limitPeriod = 10 * time.Second
	// noticePeriod is the time from one notice of the kernel to the next. shortPeriod is that while memory is short:
	// then it would be noticed at once.
	noticePeriod, shortPeriod = 100 * time.Millisecond, time.Second
)

// Start implements kernel.Behavior.
func (a *actor) Start(ctx *kernel.Context[Message]) {
	for _, e := range ctx.InFlight() {
		ctx.Cancel(e.ID)
	}
	a.limits = ctx.Now().Add(limitPeriod)
	a.arm(ctx)
	a.measure(ctx)
}

// Receive implements kernel.Behavior.
func (a *actor) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case Resend:
		if a.told {
			a.deps.Show(a.shown)
		}
	case look:
		if m.round == a.round {
			a.timer(ctx)
		}
	case noticed:
		if m.id == a.watch && port.KindOf(m.err) != port.Unsupported {
			a.watch = 0
			ctx.After(noticePeriod, arm{})
			if m.err == nil && a.state == waiting {
				a.measure(ctx)
			}
		}
	case arm:
		a.arm(ctx)
	case left:
		if a.state == measuring && m.id == a.effect {
			a.measured(ctx, m)
		}
	case reclaimed:
		if a.state == reclaiming && m.round == a.round {
			if a.pending--; a.pending == 0 {
				a.measure(ctx)
			}
		}
	case listed:
		if m.round == a.round {
			a.listed(ctx, m.pods)
		}
	case used:
		if a.state == weighing && m.id == a.effect {
			a.weigh(ctx, m)
		}
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
	case waiting, reclaiming, listing:
		a.measure(ctx)
	case ending:
		if !ctx.Now().Before(a.until) {
			a.victim = nil
			a.measure(ctx)
			return
		}
		a.become(ctx, ending, endPoll)
		a.ask(ctx)
	case measuring, weighing: // their effects have deadlines
	}
}

func (a *actor) arm(ctx *kernel.Context[Message]) {
	if a.deps.Policy.NoNotices {
		return
	}
	for _, t := range a.deps.Policy.Thresholds {
		if t.Signal == eviction.MemoryAvailable && a.reading.Memory.Known {
			a.armed = true
			threshold := uint64(max(t.Value.Of(int64(a.reading.Memory.Capacity)), 0))
			if a.reading.Memory.Available < threshold ||
				a.reading.Allocatable.Known && a.reading.Allocatable.Available < threshold {
				ctx.After(shortPeriod, arm{})
				return
			}
			a.watch = portcall.Do0(ctx, kernel.Effect[Message]{
				Kind: "WatchMemory", Lane: "notice", Deadline: kernel.NoDeadline, Patience: kernel.NoDeadline, Idles: true,
			}, func(c context.Context, done func(error)) { a.deps.Pressure.WatchMemory(c, threshold, done) },
				func(id kernel.EffectID, err error) Message { return noticed{id, err} })
			return
		}
	}
}

func (a *actor) measure(ctx *kernel.Context[Message]) {
	a.become(ctx, measuring, 0)
	a.effect = portcall.Do(ctx, a.call("MeasureNode"), a.deps.Pressure.Left,
		func(id kernel.EffectID, r eviction.Reading, err error) Message { return left{id, r, err} })
}

func (a *actor) call(kind string) kernel.Effect[Message] {
	return kernel.Effect[Message]{Kind: kind, Lane: kind, Deadline: a.deps.Deadline}
}

func (a *actor) wait(ctx *kernel.Context[Message], before *eviction.Reading) {
	d := a.deps.Policy.Wait(before, &a.reading)
	if a.deps.Policy.LocalStorage {
		d = min(d, max(a.limits.Sub(ctx.Now()), eviction.Shortest))
	}
	a.become(ctx, waiting, d)
}

// fail logs a failure, once until it is over.
func (a *actor) fail(ctx *kernel.Context[Message], err error) {
	if err != nil && !a.failed {
		ctx.Log().Warn().Str("error", err.Error()).
			Msg("cannot measure all resources of the node; pods are evicted only for those that were measured; retrying")
	}
	a.failed = err != nil
}

func (a *actor) measured(ctx *kernel.Context[Message], m left) {
	a.fail(ctx, m.err)
	before := a.reading
	a.reading = m.reading
	if a.watch != 0 && (before.Memory.Capacity != a.reading.Memory.Capacity ||
		before.Allocatable.Capacity != a.reading.Allocatable.Capacity) { // limits that the kernel was not asked about
		ctx.Cancel(a.watch)
		a.watch, a.armed = 0, false
	}
	if !a.armed {
		a.arm(ctx)
	}
	var shown eviction.Conditions
	a.memory, shown, a.short = a.deps.Policy.Assess(a.memory, &a.reading, ctx.Now())
	if shown != a.shown || !a.told || shown != (eviction.Conditions{}) {
		a.shown, a.told = shown, true
		a.deps.Show(shown)
	}
	if len(a.short) == 0 {
		a.tried = false
		if a.deps.Policy.LocalStorage && !ctx.Now().Before(a.limits) {
			a.list(ctx)
			return
		}
		a.wait(ctx, &before)
		return
	}
	if !a.tried {
		s := &a.short[0]
		if now := ctx.Now(); a.said.IsZero() || now.Sub(a.said) >= eviction.Longest || now.Before(a.said) {
			a.said = now
			a.event(ctx, nil, "EvictionThresholdMet", "Attempting to reclaim "+string(s.Signal.Resource()))
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
	a.tried = true
	a.become(ctx, reclaiming, reclaimDeadline)
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

func (a *actor) list(ctx *kernel.Context[Message]) {
	a.become(ctx, listing, listDeadline)
	a.ask(ctx)
}

func (a *actor) ask(ctx *kernel.Context[Message]) {
	self, round := ctx.Self(), a.round
	a.deps.Pods(func(p []*v1.Pod) { self.Tell(listed{round, p}) })
}

func (a *actor) listed(ctx *kernel.Context[Message], all []*v1.Pod) {
	switch a.state {
	case ending:
		if a.victim == nil || ended(a.victim, all) {
			a.victim = nil
			a.measure(ctx)
		}
		return
	case listing:
	case waiting, measuring, reclaiming, weighing:
		return
	}
	want := port.PodUse{Disk: true}
	if len(a.short) > 0 {
		switch a.short[0].Signal.Resource() {
		case v1.ResourceMemory:
			want = port.PodUse{Memory: true}
		case eviction.PIDs:
			want = port.PodUse{Processes: true}
		default: // disk
		}
	}
	var chosen []*v1.Pod
	for _, p := range all {
		if len(a.short) > 0 && !podspec.Finished(p) && !podspec.Critical(p) || len(a.short) == 0 && eviction.Limited(p) {
			chosen = append(chosen, p)
		}
	}
	a.limits = ctx.Now().Add(limitPeriod)
	if len(chosen) == 0 {
		a.tried = false
		a.wait(ctx, &a.reading)
		return
	}
	a.become(ctx, weighing, 0)
	a.effect = portcall.Do(ctx, a.call("MeasurePods"),
		func(c context.Context, done func([]eviction.Use, error)) { a.deps.Pressure.Use(c, chosen, want, done) },
		func(id kernel.EffectID, u []eviction.Use, err error) Message { return used{id, chosen, u, err} })
}

// ended says whether a pod has ended or is gone.
func ended(victim *v1.Pod, all []*v1.Pod) bool {
	for _, p := range all {
		if p.UID == victim.UID {
			return podspec.Finished(p)
		}
	}
	return true
}

// weigh evicts one pod for a shortage, or all pods that are over their limits.
func (a *actor) weigh(ctx *kernel.Context[Message], m used) {
	a.fail(ctx, m.err)
	a.tried = false
	if len(m.uses) == len(m.pods) {
		if len(a.short) > 0 {
			if v, is := a.deps.Policy.Choose(&a.short[0], &a.reading, m.pods, m.uses, ctx.Now()); is {
				a.evict(ctx, &v)
			}
		} else {
			for i, p := range m.pods {
				if v, is := eviction.OverLimit(p, &m.uses[i], &a.reading, ctx.Now()); is {
					a.evict(ctx, &v)
				}
			}
		}
	}
	if a.victim != nil {
		a.become(ctx, ending, endPoll)
		return
	}
	a.wait(ctx, &a.reading)
}

func (a *actor) evict(ctx *kernel.Context[Message], v *eviction.Victim) {
	a.event(ctx, v.Pod, eviction.Reason, v.Stop.Message)
	a.victim, a.until = v.Pod, ctx.Now().Add(v.Stop.Grace+endWait)
	if a.deps.Evicted != nil {
		a.deps.Evicted(v.Signal)
	}
	a.deps.Evict(pods.Evict{UID: v.Pod.UID, Stop: v.Stop})
}

func (a *actor) event(ctx *kernel.Context[Message], p *v1.Pod, reason, message string) {
	e := port.Event{Pod: p, Warning: true, Reason: reason, Message: message, At: ctx.Now()}
	if p == nil {
		e.Node = a.deps.NodeName
	}
	a.deps.Events.Record(e)
}
