package kernel

import (
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/flat"
)

// Pool bounds how many effects of a sort run at once on one machine.
type Pool struct {
	Name string
	Size int
	// MinHold and MaxHold bound how long a call keeps its slot: after three
	// times the usual duration of its kind it gives the slot back and goes on
	// without, so that hung calls do not stop a node.
	MinHold, MaxHold time.Duration
	// Unkept: a slot is free as soon as its effect has ended. Otherwise it stays
	// with its owner until that has handled the result, so that an owner whose
	// effects are the steps of one thing goes on with it.
	Unkept bool
}

// PoolState is how busy a pool is.
type PoolState struct {
	Name    string `json:"name"`
	Size    int    `json:"size"`
	Held    int    `json:"held"`
	Waiting int    `json:"waiting"`
}

// slots is a Pool at work. The Runner's lock guards it.
type slots struct {
	Pool
	// Invariant: 0 <= held <= Size, the number of effects whose HoldsSlot is Name.
	held int
	// waiting is in order of coming. Invariant: empty if held < Size; each is
	// Queued, the first on its lane, and has waits set.
	waiting []*effect
	// usual is how long a call of each kind takes.
	usual flat.Map[string, time.Duration]
}

// take gives e a slot, or puts it into the queue for one.
func (p *slots) take(e *effect) bool {
	if p.held < p.Size {
		p.held++
		e.HoldsSlot = p.Name
		return true
	}
	p.waiting = append(p.waiting, e)
	e.waits = true
	return false
}

// release takes e's slot back and gives it to the first in the queue, if any,
// which it returns.
func (p *slots) release(e *effect) *effect {
	e.HoldsSlot = ""
	p.held--
	if len(p.waiting) == 0 {
		return nil
	}
	first := 0
	for i, w := range p.waiting {
		if w.rank < p.waiting[first].rank {
			first = i
		}
	}
	w := p.waiting[first]
	p.waiting = slices.Delete(p.waiting, first, first+1)
	w.waits = false
	p.held++
	w.HoldsSlot = p.Name
	return w
}

// leave takes e out of the queue.
func (p *slots) leave(e *effect) {
	if e.waits {
		e.waits = false
		i := slices.Index(p.waiting, e)
		p.waiting = slices.Delete(p.waiting, i, i+1)
	}
}

// hold is how long a call of this kind keeps its slot.
func (p *slots) hold(kind string) time.Duration {
	return min(max(3*p.usual.At(kind), p.MinHold), p.MaxHold)
}

// learn folds a duration into what is usual, an eighth at a time. One that
// outlived its slot counts as long as it had it, so that a machine which has
// become slower is learnt, and one hung call that answers at last says little.
func (p *slots) learn(kind string, d time.Duration) {
	d = min(d, p.hold(kind))
	u, ok := p.usual.Get(kind)
	if ok {
		d = u + (d-u)/8
	}
	p.usual.Set(kind, d)
}
