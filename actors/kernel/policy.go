package kernel

import (
	"fmt"
	"time"
)

// Decision is what happens to an actor that crashed.
type Decision uint8

const (
	// Restart: start again after a backoff.
	Restart Decision = iota
	// Quarantine: too many crashes; it is tried again slowly.
	Quarantine
	// Escalate: too many crashes; its parent fails, and with it the subsystem.
	Escalate
	// Ended: the actor was stopping anyway.
	Ended
	// Contained: a call has panicked, and failed. The actor that made it goes on.
	Contained
)

func (d Decision) String() string {
	switch d {
	case Restart:
		return "restart"
	case Quarantine:
		return "quarantine"
	case Escalate:
		return "escalate"
	case Ended:
		return "ended"
	case Contained:
		return "contained"
	default:
		return fmt.Sprintf("Decision(%d)", uint8(d))
	}
}

// MarshalText gives the decision as a word.
func (d Decision) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Policy is a restart strategy: what happens at an actor's n-th crash within Window. The limits
// multiply up the tree (a parent that allows 5 restarts of children that allow 5 allows 25), so
// keep them small.
type Policy struct {
	// Base is the delay before the first restart. It doubles for each further crash in the window, up
	// to Max.
	Base, Max time.Duration
	// Restarts is the number of crashes in Window that lead to a restart.
	Restarts int
	Window   time.Duration
	// Beyond is the decision after that: Quarantine or Escalate.
	Beyond Decision
	// Retry is the delay of a quarantined actor's next try.
	Retry time.Duration
	// Contain: a panic in the work of an effect fails the call, and does not crash the actor. It is always so where Beyond
	// is Escalate.
	Contain bool
}

// ForPods is for independent actors of which there are many. A crashing one never affects the
// others.
var ForPods = Policy{
	Base: 20 * time.Millisecond, Max: 10 * time.Second,
	Restarts: 5, Window: 2 * time.Minute, Beyond: Quarantine, Retry: time.Minute,
}

// ForSingletons is for actors that the whole node depends on.
var ForSingletons = Policy{
	Base: 10 * time.Millisecond, Max: 5 * time.Second,
	Restarts: 5, Window: time.Minute, Beyond: Escalate,
}

// ForRoot is for the topmost actor of a node.
var ForRoot = Policy{
	Base: 100 * time.Millisecond, Max: 5 * time.Second,
	Restarts: 3, Window: 5 * time.Minute, Beyond: Escalate,
}

// Validate says what is wrong with the policy.
func (p Policy) Validate() error {
	switch {
	case p.Base <= 0 || p.Max < p.Base:
		return fmt.Errorf("kernel: policy: it needs 0 < Base <= Max, and has %s and %s", p.Base, p.Max)
	case p.Restarts < 0 || p.Window <= 0:
		return fmt.Errorf("kernel: policy: %d restarts in %s: neither can be negative, nor the window zero",
			p.Restarts, p.Window)
	case p.Beyond == Quarantine && p.Retry <= 0:
		return fmt.Errorf("kernel: policy: a quarantine without Retry never ends")
	case p.Beyond != Quarantine && p.Beyond != Escalate:
		return fmt.Errorf("kernel: policy: Beyond is %s: it can only be quarantine or escalate", p.Beyond)
	}
	return nil
}

// Decide returns the decision, the delay, and the crash times to remember, including now; before
// are the earlier ones. More than Restarts of them lead to Beyond. An actor that crashes within
// Window after its quarantine goes back there. Otherwise, with Retry > Window/Restarts, it would
// crash at full speed for a while after every retry.
func (p Policy) Decide(before []time.Time, now time.Time) (Decision, time.Duration, []time.Time) {
	n := len(before)
	relapse := p.Beyond == Quarantine && n > p.Restarts && now.Sub(before[n-1]) < p.Retry+p.Window
	kept := make([]time.Time, 0, min(n, p.Restarts)+1)
	for _, t := range before[max(0, n-p.Restarts):] { // older ones don't matter
		if relapse || now.Sub(t) < p.Window {
			kept = append(kept, t)
		}
	}
	kept = append(kept, now)
	if len(kept) <= p.Restarts {
		return Restart, p.backoff(len(kept)), kept
	}
	if p.Beyond == Quarantine {
		return Quarantine, p.Retry, kept
	}
	return Escalate, 0, kept
}

// backoff is the delay after the n-th crash.
func (p Policy) backoff(n int) time.Duration {
	d := p.Base
	for range n - 1 {
		if d >= p.Max/2 {
			return p.Max
		}
		d *= 2
	}
	return d
}
