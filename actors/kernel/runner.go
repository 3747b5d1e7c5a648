package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Runner runs the effects of one machine's actors. It belongs to the machine and outlives restarts
// of the actors.
type Runner struct {
	sys   *System
	clock Clock

	mu     sync.Mutex
	closed bool
	// wards gives the path of the actor that an effect is For; nil if none is known.
	wards func(of string) (path string)
	// left are effects that Close cancelled and whose work goes on; idle is closed when there are none any more.
	left map[*effect]struct{}
	idle chan struct{}
	// pause is set while it is paused.
	pause *pause
	// drain is set when no effect may begin any more: see Drain.
	drain *drain
	// first and last are the ends of the list of unfinished effects, oldest first. Each effect is also
	// in the effects of the cell at its path, or, if there is no cell, in orphans by path.
	//
	// Invariant: e.home.effects, or orphans[e.owner.path] if home is nil, has e
	// iff the list has.
	first, last *effect
	orphans     map[string][]*effect
	pools       map[string]*slots
	counts      map[string]*KindCount
	// kept are finished effects whose slots wait for their owners, oldest first.
	// Invariant: if there are any, reaping, and a timer is set for the oldest.
	kept    []*effect
	reaping bool
}

type effect struct {
	EffectInfo
	owner *cell
	// home is the cell whose effects have it; nil if orphans have it.
	home       *cell
	prev, next *effect
	// slots is the pool that it needs a slot of; nil for none.
	slots    *slots
	share    *share // of its pod, if slots are Fair
	count    *KindCount
	rank     int64
	idles    bool
	maxQueue time.Duration
	deadline time.Duration
	// waits: it is in its pool's queue. ended: its owner has cancelled it.
	waits, ended bool
	// kept: it finished at over, and its slot waits for its owner.
	kept bool
	over time.Time

	work interface {
		begin(context.Context, *Runner)
		overdue() result
	}

	// begun: Run was given ctx.
	begun    bool
	ctx      effectContext
	stopDead func() bool
	stopHold func() bool
	// stopWait stops the timer of MaxQueue.
	stopWait func() bool
}

// NewRunner makes the runner of one machine. Its clock is the system's; see UseClock.
func NewRunner(s *System, pools ...Pool) (*Runner, error) {
	r := &Runner{
		sys: s, clock: s.clock, orphans: map[string][]*effect{}, pools: map[string]*slots{}, counts: map[string]*KindCount{},
		left: map[*effect]struct{}{}, idle: make(chan struct{}),
	}
	for _, p := range pools {
		if p.Name == "" || p.Size < 1 || p.MinHold <= 0 || p.MaxHold < p.MinHold || p.Fair && !p.Unkept {
			return nil, fmt.Errorf(
				"kernel: pool %+v needs a name, at least one slot, 0 < MinHold <= MaxHold, and Unkept if it is Fair", p)
		}
		if r.pools[p.Name] != nil {
			return nil, errors.New("kernel: two pools are named " + p.Name)
		}
		r.pools[p.Name] = &slots{Pool: p, shares: map[string]*share{}}
	}
	for _, p := range pools {
		if p.Behind == "" {
			continue
		}
		ahead := r.pools[p.Behind]
		if ahead == nil || ahead.Behind != "" || p.BehindMax <= 0 {
			return nil, fmt.Errorf(
				"kernel: pool %s is behind %q: that must be a pool that is behind none, and BehindMax must be set", p.Name,
				p.Behind,
			)
		}
		r.pools[p.Name].ahead = ahead
		ahead.after = append(ahead.after, r.pools[p.Name])
	}
	return r, nil
}

// UseClock gives the machine a clock of its own: the runner's actors read it, and their timers and
// deadlines go by it. Call it before the runner is used.
func (r *Runner) UseClock(c Clock) { r.clock = c }

// UseWards has a panic of the work of an effect be a crash of the actor that the effect is For, as long as that exists.
// path gives its path by For. Call it before the runner is used.
func (r *Runner) UseWards(path func(of string) string) { r.wards = path }

// ward is the actor that an effect is For; nil if there is none.
func (r *Runner) ward(of string) *cell {
	if r.wards == nil {
		return nil
	}
	return r.sys.cell(r.wards(of))
}

// add takes a new effect and begins it if possible. pool is the pool of the slot it needs, keeps
// the pool of the slot it may take over; both may be empty.
func (r *Runner) add(e *effect, pool, keeps string) {
	r.mu.Lock()
	if name := cmp.Or(pool, keeps); name != "" {
		if e.slots = r.pools[name]; e.slots == nil {
			r.mu.Unlock()
			panic(fmt.Sprintf("effect %s of %s needs a slot of %q, a pool that does not exist", e.Kind, e.owner.path, name))
		}
	}
	e.Phase, e.Since = EffectQueued, r.clock.Now()
	e.count = r.countLocked(e.Kind)
	busy := r.laneBusyLocked(e)
	if keeps != "" && (busy || r.closed || r.drain != nil || !r.inheritLocked(e)) {
		e.slots = nil
	}
	r.linkLocked(e)
	r.traceLocked(e)
	if busy {
		e.WaitedFor = WaitedForLane
	}
	switch {
	case r.closed, r.drain != nil:
		r.dropLocked(e)
	case !busy && (e.HoldsSlot != "" || r.inheritLocked(e) || r.slotLocked(e)):
		r.startLocked(e)
	}
	begin := e.Phase == EffectStarted
	r.mu.Unlock()
	if begin {
		r.begin(e)
	}
}

// waitNoMore begins an effect that has waited for a slot for MaxQueue.
func (r *Runner) waitNoMore(e *effect) {
	r.mu.Lock()
	begin := e.waits
	if begin {
		e.slots.leave(e)
		r.startLocked(e)
	}
	r.mu.Unlock()
	if begin {
		r.begin(e)
	}
}

func (r *Runner) startLocked(e *effect) {
	if e.stopWait != nil {
		e.stopWait()
	}
	e.Phase, e.Since = EffectStarted, r.clock.Now()
	r.traceLocked(e)
}

// begin sets the timers and calls Run, without the lock: Run may finish at once.
func (r *Runner) begin(e *effect) {
	r.mu.Lock()
	if r.pause != nil {
		r.lateLocked(func() { r.begin(e) })
		return
	}
	if e.Phase != EffectStarted { // the runner was closed meanwhile
		r.mu.Unlock()
		return
	}
	e.begun = true
	if !e.Standing && e.deadline != NoDeadline {
		e.stopDead = r.clock.AfterFunc(e.deadline, func() { r.expire(e, false) })
	}
	if e.HoldsSlot != "" {
		if hold := e.slots.hold(e); e.Standing || hold < e.deadline {
			e.stopHold = r.clock.AfterFunc(hold, func() { r.giveBack(e) })
		}
	}
	ended := e.ended
	r.mu.Unlock()
	if ended {
		e.ctx.end(context.Canceled)
	}
	if !e.guard("Run", func() { e.work.begin(&e.ctx, r) }) {
		r.expire(e, true) // the work that it began may still answer
	}
}

func (r *Runner) beginAll(es []*effect) {
	for _, e := range es {
		r.begin(e)
	}
}

// finish handles the call of done.
func (r *Runner) finish(e *effect, res result) {
	r.mu.Lock()
	if r.pause != nil {
		r.lateLocked(func() { r.finish(e, res) })
		return
	}
	if r.closed {
		r.leaveLocked(e)
		r.mu.Unlock()
		return
	}
	now := r.clock.Now()
	var next []*effect
	switch e.Phase {
	case EffectStarted:
		e.count.finished(now.Sub(e.Since))
		if e.slots != nil {
			e.slots.learn(e, now)
		}
		e.endLocked(EffectFinished)
		r.traceLocked(e)
		r.removeLocked(e)
		r.keepLocked(e, now)
		next = r.vacateLocked(e)
	case EffectExpired:
		e.count.Late++
		e.Phase = EffectLate
		r.traceLocked(e)
		r.removeLocked(e)
	default: // done was called twice, and the first call counted
		r.mu.Unlock()
		return
	}
	r.drainedLocked()
	r.mu.Unlock()
	e.ctx.end(context.Canceled)
	e.owner.deliver(envelope{msg: res})
	if e.owner.unable() {
		r.settle(e)
	}
	r.beginAll(next)
}

// expire handles the deadline, or a Run that panicked, which the owner has been told of already.
func (r *Runner) expire(e *effect, panicked bool) {
	r.mu.Lock()
	if r.pause != nil {
		r.lateLocked(func() { r.expire(e, panicked) })
		return
	}
	if e.Phase != EffectStarted {
		r.mu.Unlock()
		return
	}
	e.endLocked(EffectExpired)
	e.count.Expired++
	r.traceLocked(e)
	next := r.vacateLocked(e)
	r.drainedLocked()
	r.mu.Unlock()
	e.ctx.end(context.DeadlineExceeded)
	if !panicked {
		e.guard("Expired", func() { e.owner.deliver(envelope{msg: e.work.overdue()}) })
	}
	r.beginAll(next)
}

// listLocked is the list of the path's effects that has e.
func (r *Runner) listLocked(e *effect) *[]*effect {
	if e.home != nil {
		return &e.home.effects
	}
	return new(r.orphans[e.owner.path])
}

func (r *Runner) linkLocked(e *effect) {
	e.home = e.owner
	e.home.effects = append(e.home.effects, e)
	e.home.countLaneLocked(e)
	if e.prev = r.last; e.prev != nil {
		e.prev.next = e
	} else {
		r.first = e
	}
	r.last = e
}

func (r *Runner) removeLocked(e *effect) {
	list := r.listLocked(e)
	i := placeOf(*list, e.ID)
	if i < 0 {
		return // the runner was closed meanwhile
	}
	switch {
	case len(*list) == 1:
		*list = nil // an idle actor uses no memory for it
		if e.home != nil {
			e.home.lanes = nil
		}
	case i < len(*list)/2: // one of the oldest of many: there are fewer before it than behind it
		copy((*list)[1:i+1], (*list)[:i])
		(*list)[0] = nil
		*list = (*list)[1:]
	default:
		*list = slices.Delete(*list, i, i+1)
	}
	if e.home == nil {
		if len(*list) == 0 {
			delete(r.orphans, e.owner.path)
		} else {
			r.orphans[e.owner.path] = *list
		}
	}
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		r.first = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		r.last = e.prev
	}
	e.prev, e.next = nil, nil
}

// allLocked are all unfinished effects by path, and within a path oldest first.
func (r *Runner) allLocked() (all []*effect) {
	for e := r.first; e != nil; e = e.next {
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b *effect) int { return cmp.Compare(a.owner.path, b.owner.path) })
	return all
}

// Close ends the runner as the death of its process would. Queued effects are dropped, the ctx of
// running ones is ended, and no result is delivered any more. Ended waits for their work.
func (r *Runner) Close() {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return
	}
	r.closed = true
	for _, k := range slices.Clone(r.kept) {
		r.unkeepLocked(k)
		k.HoldsSlot = ""
		k.slots.held--
	}
	var ended []*effect
	for _, e := range r.allLocked() {
		if e.stopDead != nil {
			e.stopDead()
		}
		if e.begun {
			ended = append(ended, e)
			r.left[e] = struct{}{}
		}
		if e.stopHold != nil {
			e.stopHold()
		}
		if e.HoldsSlot != "" {
			e.HoldsSlot = ""
			e.slots.held--
		}
		if e.Phase != EffectExpired {
			r.dropLocked(e)
		} else {
			r.removeLocked(e)
		}
	}
	r.leaveLocked(nil)
	r.mu.Unlock()
	for _, e := range ended {
		e.ctx.end(context.Canceled)
	}
}

func (r *Runner) traceLocked(e *effect) {
	if t := r.sys.tracer; t != nil {
		t.Effect(r.sys.clock.Now(), e.owner.path, e.Phase, e.EffectInfo)
	}
}
