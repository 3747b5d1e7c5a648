package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Checked is a Behavior with invariants on its fields. Check says which of them does not hold, in the words that stand
// at the field; nil if all do. It is called after each message, and only where Config.Violated is set: so it may walk
// over all that the actor knows. It changes nothing.
type Checked interface{ Check() error }

// Violation is an invariant that does not hold.
type Violation struct {
	// Path is the actor, Message what it has just handled: the type of a message, or Start, Overflowed,
	// Resync or ChildStopped.
	Path, Message string
	// Invariant says what does not hold.
	Invariant error
}

func (v *Violation) String() string {
	return fmt.Sprintf("%s, after %s: %v", v.Path, v.Message, v.Invariant)
}

// check holds the invariants of the actor, of its mailbox, and of the runner of its effects.
func (a *adapter[M]) check() {
	told := a.sys.violated
	if told == nil {
		return
	}
	err := a.cell.check()
	if r := a.cell.runner; r != nil && err == nil {
		err = r.check()
	}
	if b, is := a.behavior.(Checked); is && err == nil {
		err = b.Check()
	}
	if err != nil {
		told(&Violation{Path: a.cell.path, Message: a.cell.current, Invariant: err})
	}
}

// check holds the invariant of scheduled, for a cell that is in its step and for those that the scheduler holds.
func (c *cell) check() error {
	v, is := c.sys.sched.(*Virtual)
	if !is {
		return nil // goroutines are the scheduler, and have no list
	}
	bad := !c.scheduled || slices.Contains(v.runnable, c) ||
		slices.ContainsFunc(v.runnable, func(o *cell) bool { return !o.scheduled })
	if bad {
		return errors.New("kernel: scheduled iff the scheduler holds the cell, or is in its step")
	}
	return nil
}

// check holds the invariants of the effects and of the pools.
func (r *Runner) check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, listed, orphans := 0, 0, 0
	for e := r.first; e != nil; e = e.next {
		of := *r.listLocked(e)
		if placeOf(of, e.ID) < 0 {
			return fmt.Errorf("kernel: %s: %s %s is in the list only", wordsOfLists, e.Kind, e.Object)
		}
		if all++; of[0] == e {
			listed += len(of)
		}
		if e.home == nil {
			orphans++
		}
	}
	for _, of := range r.orphans { // order-free: a sum
		orphans -= len(of)
	}
	if listed != all || orphans != 0 {
		return fmt.Errorf("kernel: %s: it has %d, and they have %d, and %d orphans more", wordsOfLists, all, listed, -orphans)
	}
	if len(r.kept) > 0 && !r.reaping {
		return fmt.Errorf("kernel: kept: if there are any, reaping, and a timer is set for the oldest: %d are kept",
			len(r.kept))
	}
	for _, p := range r.pools { // order-free: any of them is told
		if err := r.checkLocked(p); err != nil {
			return fmt.Errorf("kernel: pool %s: %w", p.Name, err)
		}
	}
	return nil
}

const wordsOfLists = "e.home.effects, or orphans[e.owner.path] if home is nil, has e iff the list has"

// checkLocked holds the invariants of one pool.
func (r *Runner) checkLocked(p *slots) error {
	held := 0
	for e := r.first; e != nil; e = e.next {
		if e.slots == p && e.HoldsSlot != "" {
			held++
		}
	}
	for _, k := range r.kept {
		if k.slots == p {
			held++
		}
	}
	if p.held < 0 || p.held > p.Size || p.held != held {
		return fmt.Errorf("held: 0 <= held <= Size, the number of effects whose HoldsSlot is Name: %d of %d, and %d have one",
			p.held, p.Size, held)
	}
	bad := ""
	if len(p.waiting) > 0 && p.held < p.Size && (p.ahead == nil || p.ahead.held == 0) && !r.closed {
		bad = "there is a free slot"
	}
	for _, w := range p.waiting {
		before := func(o *effect) bool { return o.ID < w.ID && o.Lane == w.Lane && o.Phase <= EffectStarted }
		if w.Phase != EffectQueued || !w.waits || slices.ContainsFunc(*r.listLocked(w), before) {
			bad = cmp.Or(bad, fmt.Sprintf("%s %s is %s", w.Kind, w.Object, w.Phase))
		}
	}
	if bad != "" {
		return errors.New("waiting: empty if held < Size and ahead holds no slot; each is Queued, the first on its lane, " +
			"and has waits set: " + bad)
	}
	return nil
}
