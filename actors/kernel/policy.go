package kernel

import (
	"fmt"
	"time"
)

// Decision is what becomes of an actor that crashed.
type Decision uint8

const (
	// Restart: again after a backoff.
	Restart Decision = iota
	// Quarantine: too many crashes; it is kept apart and tried again slowly.
	Quarantine
	// Escalate: too many crashes; its parent fails, and with it the subsystem.
	Escalate
	// Ended: it was to stop anyway.
	Ended
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
	default:
		return fmt.Sprintf("Decision(%d)", uint8(d))
	}
}

// MarshalText writes the decision as a word.
func (d Decision) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Policy is a restart strategy: what is done with an actor's n-th crash within
// Window. Intensities multiply up the tree (a parent that allows 5 restarts of
// children that allow 5 allows 25), so keep them small.
type Policy struct {
	// Base is the delay before the first restart, doubled for each further
	// crash in the window, Max at the most.
	Base, Max time.Duration
	// Restarts is how many crashes in Window are answered by a restart.
	Restarts int
	Window   time.Duration
	// Beyond is what comes after: Quarantine or Escalate.
	Beyond Decision
	// Retry is how long a quarantined actor waits for its next try.
	Retry time.Duration
}

// ForPods is for actors of which there are many, each on its own: a crashing
// one never troubles the rest.
var ForPods = Policy{
	Base: 20 * time.Millisecond, Max: 10 * time.Second,
	Restarts: 5, Window: 2 * time.Minute, Beyond: Quarantine, Retry: time.Minute,
}

// ForSingletons is for actors that a whole node relies on.
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

// Decide is what to do at a crash, given the times of those before it, and the
// times worth remembering, this one included. More than Restarts of them mean
// that the actor is beyond: one that comes out of quarantine and crashes again
// within Window goes back there, or Retry > Window/Restarts would let it crash
// at full speed for a while after every retry.
func (p Policy) Decide(before []time.Time, now time.Time) (Decision, time.Duration, []time.Time) {
	n := len(before)
	relapse := p.Beyond == Quarantine && n > p.Restarts && now.Sub(before[n-1]) < p.Retry+p.Window
	kept := make([]time.Time, 0, min(n, p.Restarts)+1)
	for _, t := range before[max(0, n-p.Restarts):] { // more than these say nothing more
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
