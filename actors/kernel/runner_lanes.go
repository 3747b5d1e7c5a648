package kernel

import (
	"cmp"
	"slices"
)

// fewEffects is with how many effects of one actor a search of them costs less than a map. Most have one or two, and an
// actor that serves all pods may have thousands.
const fewEffects = 32

// laneBusyLocked: an earlier effect of this path is on the lane, running or waiting.
func (r *Runner) laneBusyLocked(e *effect) bool {
	if lanes := e.owner.lanes; lanes != nil {
		return lanes[e.Lane] > 0
	}
	for _, o := range e.owner.effects {
		if o.Lane == e.Lane && o.Phase <= EffectStarted {
			return true
		}
	}
	return false
}

// laneFreeLocked starts the next effect on e's lane, if it gets its slot.
func (r *Runner) laneFreeLocked(e *effect) []*effect {
	if e.home != nil && e.home.lanes != nil && e.home.lanes[e.Lane] == 0 {
		return nil
	}
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

// countLaneLocked counts the lane of e, which has just been added to its home's effects.
func (c *cell) countLaneLocked(e *effect) {
	switch {
	case c.lanes != nil:
		c.lanes[e.Lane]++
	case len(c.effects) > fewEffects:
		c.countLanesLocked()
	}
}

func (c *cell) countLanesLocked() {
	if c.lanes = nil; len(c.effects) <= fewEffects {
		return
	}
	c.lanes = map[string]int{}
	for _, e := range c.effects {
		if e.Phase <= EffectStarted {
			c.lanes[e.Lane]++
		}
	}
}

// endLocked gives e its phase when it leaves its lane.
func (e *effect) endLocked(phase EffectPhase) {
	if e.Phase <= EffectStarted && e.home != nil && e.home.lanes != nil {
		if e.home.lanes[e.Lane]--; e.home.lanes[e.Lane] == 0 {
			delete(e.home.lanes, e.Lane)
		}
	}
	e.Phase = phase
}

// placeOf is where in a list of effects that with the ID is, -1 for nowhere. They are oldest first, so mostly a few
// steps lead there.
func placeOf(list []*effect, id EffectID) int {
	i, is := slices.BinarySearchFunc(list, id, func(e *effect, id EffectID) int { return cmp.Compare(e.ID, id) })
	if is {
		return i
	}
	return slices.IndexFunc(list, func(e *effect) bool { return e.ID == id })
}
