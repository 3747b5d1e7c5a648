// Package eviction is the actor that protects the node while memory, disk or process IDs run short. It measures,
// shows the pressure, gives up images and dead containers, and then evicts one pod at a time. Beside that, whatever
// runs short, it evicts pods that use more disk than their limits (limits.go). The decisions are in decide/eviction.
//
//	eviction ──Left, Use, WatchMemory──► host       ──Find──► podview
//	eviction ──Evict, NodePressure──► pods          ──Pressure──► nodestatus
//
// After a restart, conditions come back with the first measurement. What is lost is how long a soft threshold was
// met, how long a condition stays after the pressure has ended, and which pods were evicted: one that has not ended
// may be evicted again, which changes nothing.
package eviction

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
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

func (Resend) isEvictionMessage()     {}
func (look) isEvictionMessage()       {}
func (noticed) isEvictionMessage()    {}
func (arm) isEvictionMessage()        {}
func (left) isEvictionMessage()       {}
func (reclaimed) isEvictionMessage()  {}
func (listed) isEvictionMessage()     {}
func (used) isEvictionMessage()       {}
func (lookLimits) isEvictionMessage() {}
func (limited) isEvictionMessage()    {}
func (usedDisk) isEvictionMessage()   {}

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
	Evicted func(signal string)
	// StatsAge, if set, is told how old the measurement was that an eviction was decided on, for each signal
	// whose threshold was met. It must not block.
	StatsAge func(signal string, age time.Duration)
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
// The timer of a round bounds reclaiming and listing, whose answers may be lost.
type actor struct {
	deps   *Deps
	state  state
	round  int
	effect kernel.EffectID
	// measurement is the one that is under way, 0 if none is.
	measurement kernel.EffectID
	// watch is the request for a notice that is under way, 0 if there is none.
	watch kernel.EffectID
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
		if m.id == a.measurement {
			a.measurement = 0
			fail(ctx, &a.failed, m.err)
			a.limitsRead(ctx, &m.reading)
			if a.state == measuring {
				a.measured(ctx, &m.reading)
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
			a.listed(ctx, m.pods)
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
	a.read(ctx)
}

// read measures, unless that is under way.
func (a *actor) read(ctx *kernel.Context[Message]) {
	if a.measurement == 0 {
		a.measurement = portcall.Do(ctx, a.call("MeasureNode"), a.deps.Pressure.Left,
			func(id kernel.EffectID, r eviction.Reading, err error) Message { return left{id, r, err} })
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
			Msg("cannot measure all resources of the node; pods are evicted only for those that were measured; retrying")
	}
	*failed = err != nil
}

func (a *actor) measured(ctx *kernel.Context[Message], r *eviction.Reading) {
	before := a.reading
	a.reading = *r
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
		a.tried = nil
		a.wait(ctx, &before)
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
	if a.tried == nil {
		a.tried = map[eviction.Signal]bool{}
	}
	a.tried[s.Signal] = true
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

// await looks whether the pods have ended that were evicted for what is short, and measures again: something else may
// run short meanwhile.
func (a *actor) await(ctx *kernel.Context[Message]) {
	a.become(ctx, ending, endPoll)
	a.ask(ctx)
}

func (a *actor) ask(ctx *kernel.Context[Message]) {
	self, round := ctx.Self(), a.round
	a.deps.Pods(func(p []*v1.Pod) { self.Tell(listed{round, p}) })
}

func (a *actor) listed(ctx *kernel.Context[Message], all []*v1.Pod) {
	if a.state != listing && a.state != ending {
		return
	}
	short := a.short[0].Signal.Resource()
	a.endings = a.endings.Ended(all)
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
	a.effect = portcall.Do(ctx, a.call("MeasurePods"),
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
	if a.deps.StatsAge == nil || a.reading.At.IsZero() {
		return
	}
	for i := range a.short {
		a.deps.StatsAge(string(a.short[i].Signal), max(0, now.Sub(a.reading.At)))
	}
}

// evict ends a pod, so that some of a resource is freed.
func (a *actor) evict(ctx *kernel.Context[Message], v *eviction.Victim, of v1.ResourceName) {
	a.event(ctx, v.Pod, eviction.Reason, v.Stop.Message)
	a.endings = a.endings.Begin(*v, of, ctx.Now())
	if a.deps.Evicted != nil {
		a.deps.Evicted(v.Signal)
	}
	a.deps.Evict(pods.Evict{UID: v.Pod.UID, Stop: v.Stop})
}

// overdue names the pods whose end takes too long in the log, and ends them by force. Their event is told by their own
// actors (decide/podplan).
func (a *actor) overdue(ctx *kernel.Context[Message]) {
	var late []eviction.Victim
	a.endings, late = a.endings.Overdue(ctx.Now())
	for i := range late {
		v := &late[i]
		ctx.Log().Warn().Str("pod", v.Pod.Namespace+"/"+v.Pod.Name).
			Msg("an evicted pod has not ended in time; it is stopped by force, and others may be evicted meanwhile: " +
				"see troupe tree for the call that hangs")
		a.deps.Evict(pods.Evict{UID: v.Pod.UID, Stop: v.Stop})
	}
}

func (a *actor) event(ctx *kernel.Context[Message], p *v1.Pod, reason, message string) {
	e := port.Event{Pod: p, Warning: true, Reason: reason, Message: message, At: ctx.Now()}
	if p == nil {
		e.Node = a.deps.NodeName
	}
	a.deps.Events.Record(e)
}
