package chaos

import (
	"time"

	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/supervisor/invariants"
	"github.com/troupe-dev/troupe/supervisor/sim/report"
)

// Verdict is what a case has shown.
type Verdict int

// The verdicts. A case that is Stale has a fault or an operation that was never reached: it
// does not show what it was written for.
const (
	Held Verdict = iota
	Violated
	Stale
)

func (v Verdict) String() string { return [...]string{"held", "violated", "stale"}[v] }

// Result is what came of a case.
type Result struct {
	Case *plan.Case
	// Violations in the order in which they were found; the run ends with the first.
	Violations []invariants.Violation
	// Unreached are the faults and operations that did not happen, as text.
	Unreached []string
	// Reached are the faults that struck.
	Reached []plan.Fault
	// Sometimes are the rare states that the case came through, see invariants.Sometimes.
	Sometimes []string
	// Hash is over every message and every effect: two runs are the same if theirs are.
	Hash uint64
	// Messages that actors have handled, Simulated how much time has passed.
	Messages  uint64
	Simulated time.Duration
	// Crashes of actors, and the agents that gave up.
	Crashes int
	// Writes are the calls that change something in the apiserver, Changes those in the
	// runtime.
	Writes, Changes int
	// Ready is how long each pod took from when it was asked for to when it was first Ready and stayed so for a second.
	Ready map[string]time.Duration
	// Restarts are how often containers of each pod were started again, for those that do not end by
	// themselves.
	Restarts map[string]int
	// Points are where faults could strike, in order, if they were asked for.
	Points []Point
	// states of the node at each point, if they were asked for; struck is how many points there were
	// when a fault struck.
	states []uint64
	struck int
	// Story is what happened, if it was asked for.
	Story *report.Story
	// ended is the time in the world at the end.
	ended time.Time
}

// Verdict of the case.
func (r *Result) Verdict() Verdict {
	switch {
	case len(r.Violations) > 0:
		return Violated
	case len(r.Unreached) > 0:
		return Stale
	default:
		return Held
	}
}

// Point is where a fault could strike.
type Point struct {
	Stream  plan.Stream
	Subject string
	Role    plan.Role
	N       int
}
