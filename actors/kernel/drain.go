package kernel

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// drain is the state of one Drain: the wait for the effects of pools.
type drain struct {
	pools []string
	done  chan struct{} // closed when none of them runs
	over  bool
}

// Drain drops all effects that have not begun, and all later ones. It returns when no effect that
// needs a slot of one of the pools runs, or with an error that counts them when ctx ends. Then it can be
// called again. Results are still delivered. Call it before Close, at the end of a process whose
// calls should not be cut off.
func (r *Runner) Drain(ctx context.Context, pools ...string) error {
	d := &drain{pools: pools, done: make(chan struct{})}
	r.mu.Lock()
	r.drain = d
	for _, e := range r.allLocked() {
		if e.Phase == EffectQueued {
			r.dropLocked(e)
		}
	}
	r.drainedLocked()
	r.mu.Unlock()
	select {
	case <-d.done:
		return nil
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		return fmt.Errorf("wait for %d effects of pool %s: %w", r.runningLocked(pools), strings.Join(pools, " or "),
			context.Cause(ctx))
	}
}

// drainedLocked ends the wait of Drain if nothing is left to wait for.
func (r *Runner) drainedLocked() {
	if d := r.drain; d != nil && !d.over && r.runningLocked(d.pools) == 0 {
		d.over = true
		close(d.done)
	}
}

func (r *Runner) runningLocked(pools []string) (n int) {
	for e := r.first; e != nil; e = e.next {
		if e.slots != nil && e.Phase == EffectStarted && slices.Contains(pools, e.slots.Name) {
			n++
		}
	}
	return n
}

// Ended waits after Close until all effects that it cancelled have answered. It returns an error that names the others
// when ctx ends first: calls can hang. The work of a port that answers when its ctx ends may still go on.
func (r *Runner) Ended(ctx context.Context) error {
	select {
	case <-r.idle:
		return nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for e := range r.left { // order-free: sorted
		names = append(names, strings.TrimSpace(e.Kind+" "+e.Object)+" of "+e.owner.path)
	}
	slices.Sort(names)
	return fmt.Errorf("wait for the end of %s: %w", strings.Join(names, ", "), context.Cause(ctx))
}

// leaveLocked notes that the work of an effect has ended after Close.
func (r *Runner) leaveLocked(e *effect) {
	before := len(r.left)
	delete(r.left, e)
	if len(r.left) == 0 && (e == nil || before > 0) {
		close(r.idle)
	}
}
