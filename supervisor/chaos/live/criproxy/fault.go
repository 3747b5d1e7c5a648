package criproxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Action is what a fault does to a call.
type Action uint8

const (
	// Hold keeps the call in front of the runtime until the rule is released. Then it is made,
	// also if the caller has given up: a runtime that hung does its work late.
	Hold Action = iota + 1
	// Withhold makes the call at once and keeps the answer until the rule is released, or for
	// Fault.Delay if that is given.
	Withhold
	// Delay makes the call after Fault.Delay, also if the caller has given up.
	Delay
	// Slow makes the call after Fault.Delay, unless the caller has given up.
	Slow
	// Hang never makes the call, and fails it when the rule is released.
	Hang
	// Refuse fails the call, which is not made.
	Refuse
	// LoseAnswer makes the call and fails it whatever came of it.
	LoseAnswer
)

func (a Action) String() string {
	switch a {
	case Hold:
		return "hold"
	case Withhold:
		return "withhold"
	case Delay:
		return "delay"
	case Slow:
		return "slow"
	case Hang:
		return "hang"
	case Refuse:
		return "refuse"
	case LoseAnswer:
		return "lose answer"
	default:
		return fmt.Sprintf("action %d", uint8(a))
	}
}

// Fault says which calls go wrong, and how. A stream is held, delayed or refused before its first
// message.
type Fault struct {
	// Method is the call's name without its service, such as StartContainer. Empty: every one.
	Method string
	// Match picks among its calls. Nil: all of them.
	Match func(Call) bool
	Do    Action
	// Delay is for Delay, Slow and Withhold.
	Delay time.Duration
	// Code and Message are what Refuse and LoseAnswer fail with. Default: Unavailable.
	Code    codes.Code
	Message string
	// Times is how many calls it hits. 0: all until it is released.
	Times int
}

// Validate reports what is wrong with the fault.
func (f Fault) Validate() error {
	switch f.Do {
	case Hold, Withhold, Refuse, LoseAnswer, Hang:
	case Delay, Slow:
		if f.Delay <= 0 {
			return errors.New("a fault that delays needs a Delay")
		}
	default:
		return fmt.Errorf("a fault cannot do %s", f.Do)
	}
	return nil
}

func (f Fault) err() error {
	code, message := f.Code, f.Message
	if code == codes.OK {
		code = codes.Unavailable
	}
	if message == "" {
		message = "criproxy: " + f.Do.String()
	}
	return status.Error(code, message)
}

// Rule is a fault in force.
type Rule struct {
	fault    Fault
	released chan struct{}

	mu      sync.Mutex
	over    bool
	hits    []Call
	waiting int
	late    sync.WaitGroup // calls that are made after their time, or wait to be
}

// take says whether the rule hits the call, and notes it.
func (r *Rule) take(c Call) bool {
	if r.fault.Method != "" && r.fault.Method != c.Method {
		return false
	}
	if r.fault.Match != nil && !r.fault.Match(c) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || r.fault.Times > 0 && len(r.hits) >= r.fault.Times {
		return false
	}
	r.hits = append(r.hits, c)
	r.late.Add(1)
	return true
}

// newRule puts a fault in force.
func newRule(f Fault) *Rule { return &Rule{fault: f, released: make(chan struct{})} }

// pause waits as the fault says, or until ctx ends.
func (r *Rule) pause(ctx context.Context) error {
	r.mu.Lock()
	r.waiting++
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.waiting--
		r.mu.Unlock()
	}()
	var over <-chan time.Time
	if r.fault.Delay > 0 {
		timer := time.NewTimer(r.fault.Delay)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-r.released:
	case <-over:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Hits are the calls that the rule hit so far.
func (r *Rule) Hits() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.hits)
}

// Waiting counts the calls that it holds or delays, or whose answers it withholds, now. Callers
// that have given up are counted.
func (r *Rule) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting
}

// Release ends the rule and lets go what waits. Again, it does nothing.
func (r *Rule) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.over = true
		close(r.released)
	}
}

// Settle waits until every call that the rule hit was made or dropped. Release comes first.
func (r *Rule) Settle(ctx context.Context) error {
	done := make(chan struct{})
	go func() { r.late.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d calls of %s wait still: %w", r.Waiting(), r.fault.Method, ctx.Err())
	}
}
