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

// Runner runs the effects of one machine's actors. It belongs to the machine,
// not to the actors: it outlives their restarts.
type Runner struct {
	sys *System

	mu     sync.Mutex
	closed bool
	// drain is set once nothing is to begin any more: see Drain.
	drain *drain
	// first and last are the ends of the list of effects that are not over, in
	// order of asking. What is of one place in the tree is also in the effects of
	// the cell there; orphans has, by path, those of places where there is none.
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

// KindCount counts the effects of one kind. Late ones are among the Expired.
type KindCount struct {
	Finished, Expired, Late, Dropped uint64
	// Total is the sum of the run times of those that finished. Within has how many
	// of them took as long as each of EffectBuckets at the most, and longer than the
	// one before it; the rest took longer than all.
	Total  time.Duration
	Within [len(EffectBuckets)]uint64
}

// EffectBuckets are the run times by which effects are counted.
var EffectBuckets = [...]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond,
	5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute,
}

func (k *KindCount) finished(took time.Duration) {
	k.Finished++
	k.Total += took
	for i, limit := range EffectBuckets {
		if took <= limit {
			k.Within[i]++
			return
		}
	}
}

type effect struct {
	EffectInfo
	owner *cell
	// home is the cell whose effects have it, nil if orphans do.
	home       *cell
	prev, next *effect
	// slots is the pool that it needs one of, nil for none.
	slots    *slots
	count    *KindCount
	rank     int64
	idles    bool
	maxQueue time.Duration
	deadline time.Duration
	// waits: it is in its pool's queue. ended: its owner has cancelled it.
	waits, ended bool
	// kept: it has finished, at over, and its slot waits for its owner.
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
	// stopWait ends the wait for a slot that has a bound.
	stopWait func() bool
}

// NewRunner makes the runner of one machine.
func NewRunner(s *System, pools ...Pool) (*Runner, error) {
	r := &Runner{sys: s, orphans: map[string][]*effect{}, pools: map[string]*slots{}, counts: map[string]*KindCount{}}
	for _, p := range pools {
		if p.Name == "" || p.Size < 1 || p.MinHold <= 0 || p.MaxHold < p.MinHold {
			return nil, fmt.Errorf("kernel: pool %+v needs a name, at least one slot and 0 < MinHold <= MaxHold", p)
		}
		if r.pools[p.Name] != nil {
			return nil, errors.New("kernel: two pools are named " + p.Name)
		}
		r.pools[p.Name] = &slots{Pool: p}
	}
	for _, p := range pools {
		if p.Behind == "" {
			continue
		}
		ahead := r.pools[p.Behind]
		if ahead == nil || ahead.Behind != "" || p.BehindMax <= 0 {
			return nil, fmt.Errorf("kernel: pool %s is behind %q: that must be a pool that is behind none, and BehindMax must be set", p.Name, p.Behind)
		}
		r.pools[p.Name].ahead = ahead
		ahead.after = append(ahead.after, r.pools[p.Name])
	}
	return r, nil
}

// add takes a new effect and begins it if it may begin now. pool is empty if it
// needs no slot, keeps if it continues with none.
func (r *Runner) add(e *effect, pool, keeps string) {
	r.mu.Lock()
	if name := cmp.Or(pool, keeps); name != "" {
		if e.slots = r.pools[name]; e.slots == nil {
			r.mu.Unlock()
			panic(fmt.Sprintf("effect %s of %s needs a slot of %q, a pool that does not exist", e.Kind, e.owner.path, name))
		}
	}
	e.Phase, e.Since = EffectQueued, r.sys.clock.Now()
	e.count = r.countLocked(e.Kind)
	busy := r.laneBusyLocked(e)
	if keeps != "" && (busy || r.closed || r.drain != nil || !r.inheritLocked(e)) {
		e.slots = nil
	}
	r.linkLocked(e)
	r.traceLocked(e)
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

// laneBusyLocked: an earlier effect of this place is on the lane, running or waiting.
func (r *Runner) laneBusyLocked(e *effect) bool {
	for _, o := range e.owner.effects {
		if o.Lane == e.Lane && o.Phase <= EffectStarted {
			return true
		}
	}
	return false
}

// slotLocked takes a slot for e, or puts it into the queue for one.
func (r *Runner) slotLocked(e *effect) bool {
	if e.slots == nil || e.slots.take(e, r.sys.clock.Now()) {
		return true
	}
	r.awaitLocked(e.slots)
	if e.maxQueue > 0 {
		e.stopWait = r.sys.clock.AfterFunc(e.maxQueue, func() { r.waitNoMore(e) })
	}
	return false
}

// waitNoMore begins an effect that has waited for a slot as long as it may.
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
	e.Phase, e.Since = EffectStarted, r.sys.clock.Now()
	r.traceLocked(e)
}

// begin sets the timers and calls Run, without the lock: Run may finish at once.
func (r *Runner) begin(e *effect) {
	r.mu.Lock()
	if e.Phase != EffectStarted { // the runner was closed meanwhile
		r.mu.Unlock()
		return
	}
	e.begun = true
	if !e.Standing && e.deadline != NoDeadline {
		e.stopDead = r.sys.clock.AfterFunc(e.deadline, func() { r.expire(e, false) })
	}
	if e.HoldsSlot != "" {
		if hold := e.slots.hold(e); e.Standing || hold < e.deadline {
			e.stopHold = r.sys.clock.AfterFunc(hold, func() { r.giveBack(e) })
		}
	}
	ended := e.ended
	r.mu.Unlock()
	if ended {
		e.ctx.end(context.Canceled)
	}
	if !e.guard("Run", func() { e.work.begin(&e.ctx, r) }) {
		r.expire(e, true) // whatever it began may still answer
	}
}

func (r *Runner) beginAll(es []*effect) {
	for _, e := range es {
		r.begin(e)
	}
}

// finish is what done does.
func (r *Runner) finish(e *effect, res result) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return
	}
	now := r.sys.clock.Now()
	var next []*effect
	switch e.Phase {
	case EffectStarted:
		e.count.finished(now.Sub(e.Since))
		if e.slots != nil {
			e.slots.learn(e, now)
		}
		e.Phase = EffectFinished
		r.traceLocked(e)
		r.removeLocked(e)
		r.keepLocked(e, now)
		next = r.vacateLocked(e)
	case EffectExpired:
		e.count.Late++
		e.Phase = EffectLate
		r.traceLocked(e)
		r.removeLocked(e)
	default: // done was called twice, and the first counted
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

// expire is the deadline, or the end of a Run that panicked: the owner has heard
// of that.
func (r *Runner) expire(e *effect, panicked bool) {
	r.mu.Lock()
	if e.Phase != EffectStarted {
		r.mu.Unlock()
		return
	}
	e.Phase = EffectExpired
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

// giveBack takes the slot from a call that is slower than usual, now or later.
func (r *Runner) giveBack(e *effect) {
	r.mu.Lock()
	var next []*effect
	if e.Phase == EffectStarted && e.HoldsSlot != "" {
		if more := e.slots.outlived(e, r.sys.clock.Now()); more > 0 {
			e.stopHold = r.sys.clock.AfterFunc(more, func() { r.giveBack(e) })
		} else {
			next = r.releaseLocked(e)
		}
	}
	r.mu.Unlock()
	r.beginAll(next)
}

// vacateLocked takes e, which runs no more, off its lane and its slot, and
// returns those that start in its stead.
func (r *Runner) vacateLocked(e *effect) []*effect {
	if e.stopDead != nil {
		e.stopDead()
	}
	if e.stopHold != nil {
		e.stopHold()
	}
	// First the lane: its next then competes for the slot with those that wait.
	next := r.laneFreeLocked(e)
	if e.HoldsSlot != "" && !e.kept {
		next = append(next, r.releaseLocked(e)...)
	}
	return next
}

// keepLocked leaves the slot of an effect that has finished to its owner until
// that has handled the result: what it asks for then continues with the slot, so
// that what was begun first is done first. An owner that does not get to it (it
// crashed, or is busy) loses the slot a moment later.
func (r *Runner) keepLocked(e *effect, now time.Time) {
	if e.HoldsSlot == "" || e.slots.Unkept {
		return
	}
	e.kept, e.over = true, now
	r.kept = append(r.kept, e)
	if !r.reaping {
		r.reaping = true
		r.sys.clock.AfterFunc(keepFor, r.reap)
	}
}

// reap gives away the slots that have waited for their owners long enough.
func (r *Runner) reap() {
	r.mu.Lock()
	now := r.sys.clock.Now()
	var next []*effect
	for len(r.kept) > 0 && now.Sub(r.kept[0].over) >= keepFor {
		e := r.kept[0]
		r.unkeepLocked(e)
		next = append(next, r.releaseLocked(e)...)
	}
	if r.reaping = len(r.kept) > 0; r.reaping {
		r.sys.clock.AfterFunc(r.kept[0].over.Add(keepFor).Sub(now), r.reap)
	}
	r.mu.Unlock()
	r.beginAll(next)
}

// keepFor bounds how long a slot waits for its owner.
const keepFor = 100 * time.Millisecond

// settle gives a kept slot to the next, if its owner has not taken it.
func (r *Runner) settle(e *effect) {
	r.mu.Lock()
	var next []*effect
	if e.kept && !r.closed {
		r.unkeepLocked(e)
		next = r.releaseLocked(e)
	}
	r.mu.Unlock()
	r.beginAll(next)
}

func (r *Runner) unkeepLocked(e *effect) {
	e.kept = false
	r.kept = slices.DeleteFunc(r.kept, func(k *effect) bool { return k == e })
}

// inheritLocked gives e the slot that its owner kept, if there is one.
func (r *Runner) inheritLocked(e *effect) bool {
	for _, k := range r.kept {
		if k.owner == e.owner && k.slots == e.slots {
			r.unkeepLocked(k)
			e.HoldsSlot, k.HoldsSlot = k.HoldsSlot, ""
			return true
		}
	}
	return false
}

// releaseLocked takes e's slot back, and returns those that start in its stead, or
// that have waited until the pool that they are behind had nothing to do.
func (r *Runner) releaseLocked(e *effect) []*effect {
	e.slots.release(e)
	next := r.nextLocked(e.slots)
	if e.slots.held == 0 {
		for _, p := range e.slots.after {
			next = append(next, r.nextLocked(p)...)
		}
	}
	return next
}

// nextLocked starts those that may have a slot of p now.
func (r *Runner) nextLocked(p *slots) (next []*effect) {
	now := r.sys.clock.Now()
	for w := p.next(now); w != nil; w = p.next(now) {
		r.startLocked(w)
		next = append(next, w)
	}
	r.awaitLocked(p)
	return next
}

// awaitLocked sets the timer for those that have waited long enough for the pool
// that p is behind, if there are any and it is not set.
func (r *Runner) awaitLocked(p *slots) {
	if p.ahead == nil || p.patience || p.held == p.Size || len(p.waiting) == 0 {
		return
	}
	oldest := p.waiting[0].Since
	for _, w := range p.waiting {
		if w.Since.Before(oldest) {
			oldest = w.Since
		}
	}
	p.patience = true
	r.sys.clock.AfterFunc(oldest.Add(p.BehindMax).Sub(r.sys.clock.Now()), func() {
		r.mu.Lock()
		p.patience = false
		var next []*effect
		if !r.closed {
			next = r.nextLocked(p)
		}
		r.mu.Unlock()
		r.beginAll(next)
	})
}

// laneFreeLocked lets the next effect on e's lane go, if it can get its slot.
func (r *Runner) laneFreeLocked(e *effect) []*effect {
	for _, o := range *r.listLocked(e) {
		if o.Lane != e.Lane || o.Phase > EffectStarted {
			continue
		}
		if o.Phase == EffectQueued && !o.waits && r.slotLocked(o) {
			r.startLocked(o)
			return []*effect{o}
		}
		return nil
	}
	return nil
}

// listLocked is the list of its place that has e.
func (r *Runner) listLocked(e *effect) *[]*effect {
	if e.home != nil {
		return &e.home.effects
	}
	return new(r.orphans[e.owner.path])
}

func (r *Runner) linkLocked(e *effect) {
	e.home = e.owner
	e.home.effects = append(e.home.effects, e)
	if e.prev = r.last; e.prev != nil {
		e.prev.next = e
	} else {
		r.first = e
	}
	r.last = e
}

func (r *Runner) removeLocked(e *effect) {
	list := r.listLocked(e)
	i := slices.Index(*list, e)
	if i < 0 {
		return // the runner was closed meanwhile
	}
	if len(*list) == 1 {
		*list = nil // an idle actor keeps nothing
	} else {
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

// allLocked are all effects that are not over, by place in the tree and, of one
// place, in order of asking.
func (r *Runner) allLocked() (all []*effect) {
	for e := r.first; e != nil; e = e.next {
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b *effect) int { return cmp.Compare(a.owner.path, b.owner.path) })
	return all
}

// adopt gives c, which has its place in the tree from now on, what is left of
// the effects of those that had it before.
func (r *Runner) adopt(c *cell) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.orphans[c.path]
	if left == nil {
		return
	}
	delete(r.orphans, c.path)
	c.effects = left
	for _, e := range left {
		e.home = c
	}
}

// orphan keeps what is left of the effects of c, which has ended.
func (r *Runner) orphan(c *cell) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(c.effects) == 0 {
		return
	}
	for _, e := range c.effects {
		e.home = nil
	}
	r.orphans[c.path] = append(r.orphans[c.path], c.effects...)
	c.effects = nil
}

// dropLocked ends an effect that is Queued.
func (r *Runner) dropLocked(e *effect) {
	e.Phase = EffectDropped
	e.count.Dropped++
	if e.stopWait != nil {
		e.stopWait()
	}
	if e.slots != nil {
		e.slots.leave(e)
	}
	r.removeLocked(e)
	r.traceLocked(e)
}

// dropQueued drops what an incarnation that is no more had asked for and what
// has not begun: the next one decides afresh.
func (r *Runner) dropQueued(c *cell) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range slices.Clone(c.effects) {
		if e.Phase == EffectQueued {
			r.dropLocked(e)
		}
	}
}

// cancel is Context.Cancel.
func (r *Runner) cancel(c *cell, id EffectID) {
	var next []*effect
	var end *effect
	r.mu.Lock()
	es := c.effects
	i := slices.IndexFunc(es, func(e *effect) bool { return e.ID == id })
	if i >= 0 {
		switch e := es[i]; e.Phase {
		case EffectQueued:
			r.dropLocked(e)
			next = r.laneFreeLocked(e)
		case EffectStarted:
			e.ended = true
			if e.begun {
				end = e
			}
		default: // it is over
		}
	}
	r.mu.Unlock()
	if end != nil {
		end.ctx.end(context.Canceled)
	}
	r.beginAll(next)
}

// Close ends the runner as the death of its process would: what waits is
// dropped, the ctx of what runs is ended, and no result comes any more.
func (r *Runner) Close() {
	r.mu.Lock()
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
	r.mu.Unlock()
	for _, e := range ended {
		e.ctx.end(context.Canceled)
	}
}

func (r *Runner) inFlight(c *cell, overdue bool) []EffectInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	return infos(c.effects, overdue)
}

func infos(effects []*effect, overdue bool) (out []EffectInfo) {
	for _, e := range effects {
		if e.Phase <= EffectStarted || overdue {
			out = append(out, e.EffectInfo)
		}
	}
	return out
}

// InFlight are the effects of a place in the tree that are not over, overdue
// ones included.
func (r *Runner) InFlight(path string) []EffectInfo {
	c := r.sys.cell(path)
	r.mu.Lock()
	defer r.mu.Unlock()
	if c != nil && c.runner == r && len(c.effects) > 0 {
		return infos(c.effects, true)
	}
	return infos(r.orphans[path], true)
}

// Pools are the runner's, by name.
func (r *Runner) Pools() []PoolState {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]PoolState, 0, len(r.pools))
	for _, p := range r.pools { // order-free: sorted below
		out = append(out, PoolState{p.Name, p.Size, p.held, len(p.waiting)})
	}
	slices.SortFunc(out, func(a, b PoolState) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Counts are the totals by kind of effect.
func (r *Runner) Counts() map[string]KindCount {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]KindCount, len(r.counts))
	for k, c := range r.counts { // order-free: a map again
		out[k] = *c
	}
	return out
}

// KindInFlight is what is under way of one kind of effect.
type KindInFlight struct {
	Kind                     string
	Queued, Started, Overdue int
	// Oldest is for how long the oldest of them has been in its phase, 0 if all are
	// Standing.
	Oldest time.Duration
}

// UnderWay sums up the effects that are not over, in order of kind.
func (r *Runner) UnderWay() []KindInFlight {
	now := r.sys.clock.Now()
	by := map[string]*KindInFlight{}
	r.mu.Lock()
	for e := r.first; e != nil; e = e.next {
		k := by[e.Kind]
		if k == nil {
			k = &KindInFlight{Kind: e.Kind}
			by[e.Kind] = k
		}
		switch e.Phase {
		case EffectQueued:
			k.Queued++
		case EffectStarted:
			k.Started++
		default:
			k.Overdue++
		}
		if !e.Standing {
			k.Oldest = max(k.Oldest, now.Sub(e.Since))
		}
	}
	r.mu.Unlock()
	out := make([]KindInFlight, 0, len(by))
	for _, k := range by { // order-free: sorted below
		out = append(out, *k)
	}
	slices.SortFunc(out, func(a, b KindInFlight) int { return cmp.Compare(a.Kind, b.Kind) })
	return out
}

func (r *Runner) countLocked(kind string) *KindCount {
	c := r.counts[kind]
	if c == nil {
		c = &KindCount{}
		r.counts[kind] = c
	}
	return c
}

func (r *Runner) traceLocked(e *effect) {
	if t := r.sys.tracer; t != nil {
		t.Effect(r.sys.clock.Now(), e.owner.path, e.Phase, e.EffectInfo)
	}
}
