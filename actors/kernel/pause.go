package kernel

import "slices"

// pause is what a paused runner holds back.
type pause struct {
	// cells have messages to handle, late are the beginnings and ends of effects, in order.
	cells []*cell
	late  []func()
}

// Pause stops the process of the runner's actors in a simulation, as SIGSTOP does. They handle
// nothing, and no effect begins, ends or passes its deadline for them, until Resume. What was asked
// of the world goes on. Timers go on as well; what they bring waits.
func (r *Runner) Pause() {
	v := r.sys.sched.(*Virtual)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pause != nil {
		return
	}
	r.pause = &pause{}
	v.paused++
	v.runnable = slices.DeleteFunc(v.runnable, func(c *cell) bool {
		if c.runner == r {
			r.pause.cells = append(r.pause.cells, c)
		}
		return c.runner == r
	})
}

// Resume ends a pause: all that came meanwhile is there at once.
func (r *Runner) Resume() {
	r.mu.Lock()
	p := r.pause
	r.pause = nil
	r.mu.Unlock()
	if p == nil {
		return
	}
	v := r.sys.sched.(*Virtual)
	v.paused--
	for _, c := range p.cells {
		v.ready(c)
	}
	for _, f := range p.late {
		f()
	}
}

// hold keeps a cell that has become runnable until Resume, and says whether it did. r may be nil.
func (r *Runner) hold(c *cell) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pause == nil {
		return false
	}
	r.pause.cells = append(r.pause.cells, c)
	return true
}

// lateLocked keeps f until Resume, and unlocks.
func (r *Runner) lateLocked(f func()) {
	r.pause.late = append(r.pause.late, f)
	r.mu.Unlock()
}
