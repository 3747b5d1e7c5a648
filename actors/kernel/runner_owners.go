package kernel

import (
	"context"
	"slices"
)

// adopt gives c the unfinished effects of earlier actors at its path.
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
	c.countLanesLocked()
}

// orphan keeps the unfinished effects of c, which has ended.
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
	c.effects, c.lanes = nil, nil
}

// dropLocked ends an effect that is Queued.
func (r *Runner) dropLocked(e *effect) {
	e.endLocked(EffectDropped)
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

// dropQueued drops the effects of a dead incarnation that have not begun. The next incarnation
// decides for itself.
func (r *Runner) dropQueued(c *cell) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range slices.Clone(c.effects) {
		if e.Phase == EffectQueued {
			r.dropLocked(e)
		}
	}
}

// cancel implements Context.Cancel.
func (r *Runner) cancel(c *cell, id EffectID) (dropped bool) {
	var next []*effect
	var end *effect
	r.mu.Lock()
	es := c.effects
	i := placeOf(es, id)
	if i >= 0 {
		switch e := es[i]; e.Phase {
		case EffectQueued:
			r.dropLocked(e)
			next, dropped = r.laneFreeLocked(e), true
		case EffectStarted:
			e.ended = true
			if e.begun {
				end = e
			}
		default: // it has ended
		}
	}
	r.mu.Unlock()
	if end != nil {
		end.ctx.end(context.Canceled)
	}
	r.beginAll(next)
	return dropped
}
