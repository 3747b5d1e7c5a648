package kernel

import (
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/smallmap"
)

// Pool bounds how many effects of a kind run at once on one machine.
type Pool struct {
	Name string
	Size int
	// MinHold and MaxHold bound how long a call keeps its slot: after three
	// times the usual duration of its kind it gives the slot back and continues
	// without one, so that hung calls do not block a node.
	MinHold, MaxHold time.Duration
	// SlowHold is how long a slow call keeps its slot, unless a later call of the
	// same kind has finished. If none has, the machine is overloaded and this call
	// does not hang, and more parallel calls would add to the load. Zero turns this
	// off.
	SlowHold time.Duration
	// Behind names a pool with priority over this one, empty for none: while an
	// effect of that pool holds a slot, no effect of this pool starts, unless it has
	// waited for BehindMax.
	Behind    string
	BehindMax time.Duration
	// Unkept: a slot is free as soon as its effect has finished. Otherwise the owner
	// keeps it until it has handled the result, so that an owner can run its next
	// effect on the same slot.
	Unkept bool
	// Fair: of the effects with the lowest Rank, the next is one whose pod (Effect.For) holds the fewest slots, and of
	// those one that has had none for longest, and then the call that has waited longest. So pods with many calls hold
	// up the one call of another for one call each. Only with Unkept.
	Fair bool
}

// PoolState is the current use of a pool.
type PoolState struct {
	Name    string `json:"name"`
	Size    int    `json:"size"`
	Held    int    `json:"held"`
	Waiting int    `json:"waiting"`
}

// slots is a Pool at run time. The Runner's lock guards it.
type slots struct {
	Pool
	// Invariant: 0 <= held <= Size, the number of effects whose HoldsSlot is Name.
	held int
	// waiting is in order of arrival. Invariant: empty if held < Size and ahead holds no slot; each is
	// Queued, the first on its lane, and has waits set.
	waiting []*effect
	// ahead is the pool that this one is Behind; nil for none. after are the pools behind this one, in
	// the Runner's order.
	ahead *slots
	after []*slots
	// shares are the pods with effects here, if the pool is Fair; given counts the slots that were given.
	shares map[string]*share
	given  uint64
	// patience is set while a timer runs for effects that have waited for BehindMax.
	patience bool
	// paces has the durations of each kind of call.
	paces smallmap.Map[string, pace]
}

// share is what the effects of one pod have of a pool: those that wait, and the slots that they hold. last is when one
// was given its slot, by slots.given.
type share struct {
	waiting, held int
	last          uint64
}

// pace is the observed duration of calls of one kind.
type pace struct {
	// usual is the usual duration, 0 while unknown.
	usual time.Duration
	// newest is the latest start among the calls that have ended.
	newest time.Time
	// slowCalls is how many idling calls in a row have outlived their slots.
	slowCalls int
}

// gives reports whether an effect that has waited since then may have a slot.
func (p *slots) gives(since, now time.Time) bool {
	return p.held < p.Size && (p.ahead == nil || p.ahead.held == 0 || now.Sub(since) >= p.BehindMax)
}

// take gives e a slot, or queues it for one.
func (p *slots) take(e *effect, now time.Time) bool {
	if p.gives(e.Since, now) {
		p.give(e)
		return true
	}
	p.waiting = append(p.waiting, e)
	e.waits = true
	p.count(e, 1, 0)
	return false
}

func (p *slots) give(e *effect) {
	p.held++
	e.HoldsSlot = p.Name
	p.count(e, 0, 1)
}

// count keeps the share of e's pod.
func (p *slots) count(e *effect, waiting, held int) {
	if !p.Fair {
		return
	}
	s := p.shares[e.For]
	if s == nil {
		s = &share{}
		p.shares[e.For] = s
	}
	s.waiting += waiting
	s.held += held
	if held > 0 {
		p.given++
		s.last = p.given
	}
	if s.waiting == 0 && s.held == 0 {
		delete(p.shares, e.For)
	}
	e.share = s
}

// release takes e's slot back.
func (p *slots) release(e *effect) {
	e.HoldsSlot = ""
	p.held--
	p.count(e, 0, -1)
}

// before reports whether a, which has waited no longer than b, is to have a slot before b.
func (p *slots) before(a, b *effect) bool {
	if a.rank != b.rank || !p.Fair {
		return a.rank < b.rank
	}
	if a.share.held != b.share.held {
		return a.share.held < b.share.held
	}
	return a.share.last < b.share.last
}

// next gives a slot to the first effect in the queue that may have one, and returns it; nil if
// there is none.
func (p *slots) next(now time.Time) *effect {
	first := -1
	for i, w := range p.waiting {
		if (first < 0 || p.before(w, p.waiting[first])) && p.gives(w.Since, now) {
			first = i
		}
	}
	if first < 0 {
		return nil
	}
	w := p.waiting[first]
	p.waiting = slices.Delete(p.waiting, first, first+1)
	w.waits = false
	p.count(w, -1, 0)
	p.give(w)
	return w
}

// leave takes e out of the queue.
func (p *slots) leave(e *effect) {
	if e.waits {
		e.waits = false
		i := slices.Index(p.waiting, e)
		p.waiting = slices.Delete(p.waiting, i, i+1)
		p.count(e, -1, 0)
	}
}

// leastHold is the shortest time that a call keeps its slot.
const leastHold = 20 * time.Millisecond

// hold is how long a call keeps its slot.
func (p *slots) hold(e *effect) time.Duration {
	of := p.paces.At(e.Kind)
	usual := p.maxIdleHold(of)
	if e.idles {
		return max(usual>>(of.slowCalls/p.Size), min(leastHold, usual))
	}
	return usual
}

// maxIdleHold is how long a call keeps its slot if calls of its kind do not idle.
func (p *slots) maxIdleHold(of pace) time.Duration {
	return min(max(3*of.usual, p.MinHold), p.MaxHold)
}

// overran handles a call that still holds its slot after hold. It returns how much longer the call
// keeps it before the next check, 0 for no longer.
func (p *slots) overran(e *effect, now time.Time) time.Duration {
	of := p.paces.At(e.Kind)
	if e.idles {
		of.slowCalls = min(of.slowCalls+1, 16*p.Size)
		p.paces.Set(e.Kind, of)
		return 0
	}
	left := p.SlowHold - now.Sub(e.Since)
	if e.Since.Before(of.newest) || left <= 0 {
		return 0
	}
	return min(left, p.MinHold/4)
}

// learn updates the usual duration by an eighth of the difference. A call that outlived its slot
// counts only as long as it had it. So a slower machine is noticed, and one hung call that answers
// at last changes little. An idling call that took longer than maxIdleHold was waiting, and does not
// count.
func (p *slots) learn(e *effect, now time.Time) {
	of := p.paces.At(e.Kind)
	if e.Since.After(of.newest) {
		of.newest = e.Since
	}
	if !e.idles || now.Sub(e.Since) <= p.maxIdleHold(of) {
		d := min(now.Sub(e.Since), max(p.hold(e), p.SlowHold))
		of.slowCalls = 0
		if of.usual > 0 {
			d = of.usual + (d-of.usual)/8
		}
		of.usual = d
	}
	p.paces.Set(e.Kind, of)
}
