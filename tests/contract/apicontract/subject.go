package apicontract

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
)

// Subject is one implementation of port.API with what the suite needs to know
// of its world.
type Subject struct {
	// API is what is tested. It may do everything.
	API port.API
	// Other is another client of the same apiserver; nil for API once more.
	Other port.API
	// Namespace exists and has the service account "default", which pods need. It
	// may be used by other tests as well.
	Namespace string

	// Break breaks the connections of API, so that it hears nothing, until heal
	// is called; changes made through Other still take effect. Nil: can't be done.
	Break func() (heal func())
	// Expire makes the apiserver forget all history, so that a watch which is
	// broken now can't go on where it was (410 Gone). Nil: can't be done.
	Expire func()

	// Now is the apiserver's clock; time.Now if nil.
	Now func() time.Time
	// Until lets time pass on a virtual clock until cond holds, and says whether
	// it did within limit. Nil: time passes by itself.
	Until func(limit time.Duration, cond func() bool) bool
	// Pass lets d pass on a virtual clock. Nil: time passes by itself.
	Pass func(d time.Duration)
	// Context makes a context that can be ended. Nil: context.WithCancel.
	Context func() (context.Context, context.CancelFunc)
	// Patience is how long the suite waits for one thing; 1 minute if zero.
	Patience time.Duration
}

// suite is what the tests of one subject share.
type suite struct {
	*testing.T
	Subject
	// name is a prefix for names that nobody else has.
	name string
	// mu guards what callbacks write: they come from any goroutine.
	mu sync.Mutex
}

// locked says whether cond holds, under the lock.
func (s *suite) locked(cond func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cond()
}

// becomes lets time pass until cond, asked under the lock, holds.
func (s *suite) becomes(cond func() bool) bool {
	patience := s.Patience
	if patience == 0 {
		patience = time.Minute
	}
	held := func() bool { return s.locked(cond) }
	if s.Until != nil {
		return s.Until(patience, held)
	}
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for !held() {
		select {
		case <-deadline.C:
			return held()
		case <-again.C:
		}
	}
	return true
}

// eventually lets time pass until cond, asked under the lock, holds.
func (s *suite) eventually(what string, cond func() bool) {
	s.Helper()
	if !s.becomes(cond) {
		s.Fatalf("%s: still not so", what)
	}
}

// pass lets d pass.
func (s *suite) pass(d time.Duration) {
	if s.Pass != nil {
		s.Pass(d)
		return
	}
	<-time.NewTimer(d).C
}

// moment is long enough for something that must not come to come.
const moment = 300 * time.Millisecond

func (s *suite) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

func (s *suite) context() (context.Context, context.CancelFunc) {
	if s.Context != nil {
		return s.Context()
	}
	return context.WithCancel(context.Background())
}

// other is the other client.
func (s *suite) other() port.API {
	if s.Other == nil {
		return s.API
	}
	return s.Other
}
