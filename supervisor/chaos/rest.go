package chaos

import (
	"fmt"

	"github.com/troupe-dev/troupe/supervisor/invariants"
)

// Rules about the whole of a run, or about two runs; L01 is in end.
const (
	// atRest: an agent that is killed while nothing is to be done, and started again, changes nothing.
	atRest = "I23"
	// isolated: what goes wrong with one pod does not delay others.
	isolated = "L03"
	// frugal: what goes wrong costs few calls more.
	frugal = "I19"
	// sameAgain: a case has the same run each time.
	sameAgain = "I25"
)

// WithRest kills the agent when all is well at the end, and holds I23 against the next one.
func WithRest() Option { return func(r *runner) { r.rests = true } }

// restful is one in how many cases rests in any case: it costs the time of two minutes.
const restful = 8

// rest kills the agent at rest, and watches the next one.
func (r *runner) rest() {
	// Points are kept for other cases, which may not rest.
	if !r.rests && (r.record || r.c.Hash()%restful != 0) || r.bare || r.cluster || len(r.inj.unreached()) > 0 {
		return
	}
	for _, c := range r.pods { // order-free: any of them
		if c.asked != nil && (c.loops() || c.asked.Spec.ActiveDeadlineSeconds != nil) {
			return // there is always something to do
		}
	}
	r.resting = true
	r.restart(r.members[0], restartDelay)
	until := r.v.Now().Add(settle)
	r.pass(until, func() bool { return !r.v.Now().Before(until) })
	if why := r.unsettled(); why != "" && !r.broken() {
		r.disturbed("%s later %s", settle, why)
	}
}

// disturbed says that an agent which has nothing to do does something.
func (r *runner) disturbed(what string, args ...any) {
	if r.resting {
		r.violated(invariants.Violation{
			ID: atRest, At: r.v.Now(),
			What: "the agent was killed and started while all was well: " + fmt.Sprintf(what, args...),
		})
	}
}
