package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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
	// owners has, by path, what is not over, in order of asking.
	owners map[string][]*effect
	pools  map[string]*slots
	counts map[string]*KindCount
	// kept are finished effects whose slots wait for their owners, oldest first.
	// Invariant: if there are any, reaping, and a timer is set for the oldest.
	kept    []*effect
	reaping bool
}

// KindCount counts the effects of one kind. Late ones are among the Expired.
type KindCount struct {
	Finished, Expired, Late, Dropped uint64
	// Total is the sum of the run times of those that finished.
	Total time.Duration
}

type effect struct {
	EffectInfo
	owner    *cell
	pool     string
	rank     int64
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
}

// NewRunner makes the runner of one machine.
func NewRunner(s *System, pools ...Pool) (*Runner, error) {
	r := &Runner{sys: s, owners: map[string][]*effect{}, pools: map[string]*slots{}, counts: map[string]*KindCount{}}
	for _, p := range pools {
		if p.Name == "" || p.Size < 1 || p.MinHold <= 0 || p.MaxHold < p.MinHold {
			return nil, fmt.Errorf("kernel: pool %+v needs a name, at least one slot and 0 < MinHold <= MaxHold", p)
		}
		if r.pools[p.Name] != nil {
			return nil, errors.New("kernel: two pools are named " + p.Name)
		}
		r.pools[p.Name] = &slots{Pool: p, usual: map[string]time.Duration{}}
	}
	return r, nil
}

// add takes a new effect and begins it if it may begin now.
func (r *Runner) add(e *effect) {
	r.mu.Lock()
	if e.pool != "" && r.pools[e.pool] == nil {
		r.mu.Unlock()
		panic(fmt.Sprintf("effect %s of %s needs a slot of %q, a pool that does not exist", e.Kind, e.owner.path, e.pool))
	}
	e.Phase, e.Since = EffectQueued, r.sys.clock.Now()
	busy := r.laneBusyLocked(e)
	r.owners[e.owner.path] = append(r.owners[e.owner.path], e)
	r.traceLocked(e)
	switch {
	case r.closed, r.drain != nil:
		r.dropLocked(e)
	case !busy && (r.inheritLocked(e) || r.slotLocked(e)):
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
	for _, o := range r.owners[e.owner.path] {
		if o.Lane == e.Lane && o.Phase <= EffectStarted {
			return true
		}
	}
	return false
}

// slotLocked takes a slot for e, or puts it into the queue for one.
func (r *Runner) slotLocked(e *effect) bool {
	return e.pool == "" || r.pools[e.pool].take(e)
}

func (r *Runner) startLocked(e *effect) {
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
	if !e.Standing {
		e.stopDead = r.sys.clock.AfterFunc(e.deadline, func() { r.expire(e, false) })
	}
	if e.HoldsSlot != "" {
		if hold := r.pools[e.pool].hold(e.Kind); e.Standing || hold < e.deadline {
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
	count := r.countLocked(e.Kind)
	var next []*effect
	switch e.Phase {
	case EffectStarted:
		count.Finished++
		count.Total += now.Sub(e.Since)
		if p := r.pools[e.pool]; p != nil {
			p.learn(e.Kind, now.Sub(e.Since))
		}
		e.Phase = EffectFinished
		r.traceLocked(e)
		r.removeLocked(e)
		r.keepLocked(e, now)
		next = r.vacateLocked(e)
	case EffectExpired:
		count.Late++
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
	r.countLocked(e.Kind).Expired++
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

// giveBack takes the slot from a call that is slower than usual.
func (r *Runner) giveBack(e *effect) {
	r.mu.Lock()
	var next []*effect
	if e.Phase == EffectStarted && e.HoldsSlot != "" {
		next = r.releaseLocked(e)
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
// that has handled the result: what it asks for then goes on with the slot, so
// that what was begun first is done first. An owner that does not get to it (it
// crashed, or is busy) loses the slot a moment later.
func (r *Runner) keepLocked(e *effect, now time.Time) {
	if e.HoldsSlot == "" || r.pools[e.pool].Unkept {
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
const keepFor = 20 * time.Millisecond

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
		if k.owner == e.owner && k.pool == e.pool {
			r.unkeepLocked(k)
			e.HoldsSlot, k.HoldsSlot = k.HoldsSlot, ""
			return true
		}
	}
	return false
}

func (r *Runner) releaseLocked(e *effect) []*effect {
	w := r.pools[e.pool].release(e)
	if w == nil {
		return nil
	}
	r.startLocked(w)
	return []*effect{w}
}

// laneFreeLocked lets the next effect on e's lane go, if it can get its slot.
func (r *Runner) laneFreeLocked(e *effect) []*effect {
	for _, o := range r.owners[e.owner.path] {
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

func (r *Runner) removeLocked(e *effect) {
	es := r.owners[e.owner.path]
	if i := slices.Index(es, e); i >= 0 {
		es = slices.Delete(es, i, i+1)
	}
	if len(es) == 0 {
		delete(r.owners, e.owner.path)
	} else {
		r.owners[e.owner.path] = es
	}
}

// dropLocked ends an effect that is Queued.
func (r *Runner) dropLocked(e *effect) {
	e.Phase = EffectDropped
	r.countLocked(e.Kind).Dropped++
	if e.pool != "" {
		r.pools[e.pool].leave(e)
	}
	r.removeLocked(e)
	r.traceLocked(e)
}

// dropQueued drops what an incarnation that is no more had asked for and what
// has not begun: the next one decides afresh.
func (r *Runner) dropQueued(owner string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range slices.Clone(r.owners[owner]) {
		if e.Phase == EffectQueued {
			r.dropLocked(e)
		}
	}
}

// cancel is Context.Cancel.
func (r *Runner) cancel(owner string, id EffectID) {
	var next []*effect
	var end *effect
	r.mu.Lock()
	es := r.owners[owner]
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
		r.pools[k.pool].held--
	}
	var ended []*effect
	for _, owner := range slices.Sorted(maps.Keys(r.owners)) {
		for _, e := range slices.Clone(r.owners[owner]) {
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
				r.pools[e.pool].held--
			}
			if e.Phase != EffectExpired {
				r.dropLocked(e)
			} else {
				r.removeLocked(e)
			}
		}
	}
	r.mu.Unlock()
	for _, e := range ended {
		e.ctx.end(context.Canceled)
	}
}

func (r *Runner) inFlight(owner string, overdue bool) []EffectInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []EffectInfo
	for _, e := range r.owners[owner] {
		if e.Phase <= EffectStarted || overdue {
			out = append(out, e.EffectInfo)
		}
	}
	return out
}

// InFlight are the effects of an actor that are not over, overdue ones included.
func (r *Runner) InFlight(path string) []EffectInfo { return r.inFlight(path, true) }

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
