package contract

import (
	"context"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// Program is a way to run something in a container.
type Program struct {
	// Image is one that can be pulled, or is there already.
	Image         string
	Command, Args []string
	// Annotations go onto the pod.
	Annotations map[string]string
	// Ready is a command that, run in the container, ends with 0 once the program
	// handles signals: a SIGTERM that comes before, the kernel drops, because the
	// program is the first of its PID namespace. Nil: it is ready when started.
	Ready []string
}

// Subject is one implementation of port.Runtime with what the suite needs to
// know of its world. Subjects may share a runtime that is in use: the suite
// looks only at pods and images of its own, and cleans up.
type Subject struct {
	Runtime port.Runtime

	// Forever runs until a signal ends it. SIGTERM does so within seconds.
	Forever Program
	// Exits ends by itself with a code, about so long after its start.
	Exits func(code int32, after time.Duration) Program
	// EndsOnTERM runs until SIGTERM, and ends with a code so long after that.
	EndsOnTERM func(code int32, after time.Duration) Program
	// IgnoresTERM is ended by SIGKILL only.
	IgnoresTERM Program
	// Exec gives a program and a command that, run in it, prints a line of output
	// on stdout and ends with a code.
	Exec func(code int32, output string) (Program, []string)
	// ExecHangs gives a program and a command that, run in it, does not end.
	ExecHangs func() (Program, []string)

	// Pullable is an image that nothing else uses, so that it may be removed;
	// MissingImage one that its registry does not have.
	Pullable, MissingImage string

	// HasEvents says that the runtime has an event stream.
	HasEvents bool
	// LogDirectory gives the directory for logs of a pod.
	LogDirectory func(namespace, name, uid string) string

	// Now is the runtime's clock.
	Now func() time.Time
	// Step lets the next thing happen on a virtual clock, false if there is none.
	// Nil: time passes by itself.
	Step func() bool
	// Advance lets d pass on a virtual clock. Nil: time passes by itself.
	Advance func(d time.Duration)
	// Context makes a context that can be ended. Nil: context.WithCancel.
	Context func() (context.Context, context.CancelFunc)
	// Patience is how long the suite waits for one thing, on the machine's
	// clock or the virtual one; 1 minute if zero.
	Patience time.Duration
}

// suite is what the tests of one subject share.
type suite struct {
	*testing.T
	Subject
}

func (s *suite) patience() time.Duration {
	if s.Patience == 0 {
		return time.Minute
	}
	return s.Patience
}

// eventually lets time pass until ready is closed or gets a value.
func eventually[T any](s *suite, what string, ready <-chan T) T {
	s.Helper()
	if s.Step == nil {
		deadline := time.NewTimer(s.patience())
		defer deadline.Stop()
		select {
		case v := <-ready:
			return v
		case <-deadline.C:
			s.Fatalf("%s: nothing came within %v", what, s.patience())
		}
	}
	limit := s.Now().Add(s.patience())
	for {
		select {
		case v := <-ready:
			return v
		default:
		}
		if !s.Step() || s.Now().After(limit) {
			select {
			case v := <-ready:
				return v
			default:
				s.Fatalf("%s: nothing came within %v of virtual time", what, s.patience())
			}
		}
	}
}

// until calls check until it says yes, letting a little time pass in between.
func (s *suite) until(what string, check func() bool) {
	s.Helper()
	limit := s.Now().Add(s.patience())
	for !check() {
		if s.Now().After(limit) {
			s.Fatalf("%s: not so after %v", what, s.patience())
		}
		s.pass(10 * time.Millisecond)
	}
}

// pass lets d pass.
func (s *suite) pass(d time.Duration) {
	if s.Advance != nil {
		s.Advance(d)
		return
	}
	timer := time.NewTimer(d)
	<-timer.C
}

func (s *suite) context() (context.Context, context.CancelFunc) {
	if s.Context != nil {
		return s.Context()
	}
	return context.WithCancel(context.Background())
}

// pair is what a call with two results gave.
type pair[T any] struct {
	value T
	err   error
}

// pending is a call that was made.
type pending[T any] struct {
	s    *suite
	what string
	got  chan pair[T]
}

// begin makes a call. A second answer would block for ever, and the test would
// say so as a leak; so there is room for it and result complains.
func begin[T any](s *suite, what string, call func(done func(T, error))) *pending[T] {
	p := &pending[T]{s: s, what: what, got: make(chan pair[T], 2)}
	inside := true
	call(func(v T, err error) {
		if s.Step != nil && inside {
			s.Errorf("%s: done was called inside the call", what)
		}
		p.got <- pair[T]{v, err}
	})
	if s.Step != nil {
		inside = false
	}
	return p
}

// result waits for the answer.
func (p *pending[T]) result() (T, error) {
	p.s.Helper()
	a := eventually(p.s, p.what, p.got)
	check.AtMost(p.s, len(p.got), 0, "%s: done was called twice", p.what)
	if a.err != nil {
		wantPortError(p.s, p.what, a.err)
	}
	return a.value, a.err
}

// beginErr makes a call whose only result is an error.
func beginErr(s *suite, what string, call func(done func(error))) *pending[struct{}] {
	return begin(s, what, func(done func(struct{}, error)) {
		call(func(err error) { done(struct{}{}, err) })
	})
}

// noError fails the test if a call failed.
func (p *pending[T]) noError() T {
	p.s.Helper()
	v, err := p.result()
	if err != nil {
		p.s.Fatalf("%s: %v", p.what, err)
	}
	return v
}

// kind fails the test unless the call failed with one of the kinds.
func (p *pending[T]) kind(kinds ...port.ErrorKind) {
	p.s.Helper()
	_, err := p.result()
	if err == nil {
		p.s.Errorf("%s: no error, want %v", p.what, kinds)
		return
	}
	for _, k := range kinds {
		if port.KindOf(err) == k {
			return
		}
	}
	p.s.Errorf("%s: %v (kind %v), want kind %v", p.what, err, port.KindOf(err), kinds)
}

func wantPortError(s *suite, what string, err error) {
	s.Helper()
	if e, ok := err.(*port.Error); !ok {
		s.Errorf("%s: error is a %T, want *port.Error: %v", what, err, err)
	} else if e.Verb == "" {
		s.Errorf("%s: error does not say what was tried: %v", what, err)
	}
}
