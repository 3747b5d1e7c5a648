package kernel

import (
	"slices"
	"time"
)

// slotLocked takes a slot for e, or queues it for one.
func (r *Runner) slotLocked(e *effect) bool {
	if e.slots == nil || e.slots.take(e, r.clock.Now()) {
		return true
	}
	e.WaitedFor = e.slots.Name
	r.awaitLocked(e.slots)
	if e.maxQueue > 0 {
		e.stopWait = r.clock.AfterFunc(e.maxQueue, func() { r.waitNoMore(e) })
	}
	return false
}

// giveBack takes the slot from a call that is slower than usual, now or after a later check.
func (r *Runner) giveBack(e *effect) {
	r.mu.Lock()
	var next []*effect
	if e.Phase == EffectStarted && e.HoldsSlot != "" {
		if more := e.slots.overran(e, r.clock.Now()); more > 0 {
			e.stopHold = r.clock.AfterFunc(more, func() { r.giveBack(e) })
		} else {
			next = r.releaseLocked(e)
		}
	}
	r.mu.Unlock()
	r.beginAll(next)
}

// vacateLocked frees the lane and the slot of e, which no longer runs, and returns the effects that
// start instead.
func (r *Runner) vacateLocked(e *effect) []*effect {
	if e.stopDead != nil {
		e.stopDead()
	}
	if e.stopHold != nil {
		e.stopHold()
	}
	// The lane comes first: its next effect then competes for the slot with the queue.
	next := r.laneFreeLocked(e)
	if e.HoldsSlot != "" && !e.kept {
		next = append(next, r.releaseLocked(e)...)
	}
	return next
}

// keepLocked reserves the slot of a finished effect for its owner until the owner has handled the
// result. The owner's next effect can then use the slot, so that work begun first is done first. An
// owner that is too slow (it crashed, or is busy) loses the slot after keepFor.
func (r *Runner) keepLocked(e *effect, now time.Time) {
	if e.HoldsSlot == "" || e.slots.Unkept {
		return
	}
	e.kept, e.over = true, now
	r.kept = append(r.kept, e)
	if !r.reaping {
		r.reaping = true
		r.clock.AfterFunc(keepFor, r.reap)
	}
}

// reap gives away the slots that were reserved for keepFor.
func (r *Runner) reap() {
	r.mu.Lock()
	now := r.clock.Now()
	var next []*effect
	for len(r.kept) > 0 && now.Sub(r.kept[0].over) >= keepFor {
		e := r.kept[0]
		r.unkeepLocked(e)
		next = append(next, r.releaseLocked(e)...)
	}
	if r.reaping = len(r.kept) > 0; r.reaping {
		r.clock.AfterFunc(r.kept[0].over.Add(keepFor).Sub(now), r.reap)
	}
	r.mu.Unlock()
	r.beginAll(next)
}

// keepFor bounds how long a slot is reserved for its owner.
const keepFor = 100 * time.Millisecond

// settle gives a reserved slot to the next effect, if its owner has not taken it.
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

// inheritLocked gives e the slot reserved for its owner, if there is one.
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

// releaseLocked frees e's slot. It returns the effects that start instead, including those of pools
// behind this one if it is idle now.
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

// nextLocked starts the effects that may have a slot of p now.
func (r *Runner) nextLocked(p *slots) (next []*effect) {
	now := r.clock.Now()
	for w := p.next(now); w != nil; w = p.next(now) {
		r.startLocked(w)
		next = append(next, w)
	}
	r.awaitLocked(p)
	return next
}

// awaitLocked sets the timer of BehindMax for effects that wait for the pool that p is behind,
// unless it is set.
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
	r.clock.AfterFunc(oldest.Add(p.BehindMax).Sub(r.clock.Now()), func() {
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
