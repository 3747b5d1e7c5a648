package simport

import (
	"sync"
	"time"
)

// Clock is the time of a simulation.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f once after d, never inside the call itself. stop reports whether it prevented
	// the call.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// Stage is the lock of a simulated port, with callbacks that run when it is free. They run only
// from clock callbacks, one at a time, in order, and never under the lock, so they may call the
// port again. They must not block.
type Stage struct {
	clock Clock
	mu    sync.Mutex
	// out are the callbacks to run once the lock is free, in order. Only one goroutine runs them at a
	// time (flushing).
	out []func()
	// spare is memory for the next callbacks.
	spare     []func()
	flushing  bool
	flushSoon bool
}

// NewStage makes the stage of one port.
func NewStage(clock Clock) *Stage { return &Stage{clock: clock} }

// Lock takes the lock. Code that adds callbacks uses Do or After instead.
func (s *Stage) Lock() { s.mu.Lock() }

// Unlock releases the lock.
func (s *Stage) Unlock() { s.mu.Unlock() }

// Now is the clock's time.
func (s *Stage) Now() time.Time { return s.clock.Now() }

// After runs step under the lock after d, and then the callbacks that it added.
func (s *Stage) After(d time.Duration, step func()) (stop func() bool) {
	return s.clock.AfterFunc(d, func() {
		s.mu.Lock()
		step()
		waiting := len(s.out) > 0
		s.mu.Unlock()
		if waiting {
			s.flush()
		}
	})
}

// Do runs step under the lock, for callers that are not clock callbacks. A clock callback then runs
// the callbacks that step added.
func (s *Stage) Do(step func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	step()
	if len(s.out) > 0 && !s.flushSoon {
		s.flushSoon = true
		s.clock.AfterFunc(0, func() {
			s.mu.Lock()
			s.flushSoon = false
			s.mu.Unlock()
			s.flush()
		})
	}
}

// Later queues f to run once the lock is free. It must be called from a step.
func (s *Stage) Later(f func()) { s.out = append(s.out, f) }

// flush runs the queued callbacks in order. If another goroutine is doing that, it runs these too.
func (s *Stage) flush() {
	for out := s.take(nil); out != nil; out = s.take(out) {
		for i, f := range out {
			out[i] = nil
			f()
		}
	}
}

// take gives the callbacks to run next, nil if there are none or another
// goroutine runs them. ran are those that were run before; nil if none were.
func (s *Stage) take(ran []func()) []func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ran == nil && s.flushing {
		return nil
	}
	if ran != nil && cap(ran) <= maxSpare {
		s.spare = ran[:0]
	}
	if len(s.out) == 0 {
		s.flushing = false
		return nil
	}
	out := s.out
	s.out, s.spare = s.spare, nil
	s.flushing = true
	return out
}

// maxSpare bounds the memory kept for callbacks.
const maxSpare = 1 << 10
