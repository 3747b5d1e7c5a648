package chaos

import (
	"fmt"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/supervisor/invariants"
)

// Rules about the whole of a run, or about two runs; L01 is in end.
const (
	// atRest: an agent that is killed while nothing is to be done, and started again, changes nothing.
	atRest = "I23"
	// busyForNothing: while all is well and nothing strikes, the agent changes nothing.
	busyForNothing = "L02"
	// isolated: what goes wrong with one pod does not delay others.
	isolated = "L03"
	// contained: a panic within a port touches only the pod that it was called for.
	contained = "I47"
	// consistent: what an actor's code says of its fields holds after each message.
	consistent = "I49"
	// unchanged: a call that takes much memory changes nothing.
	unchanged = "I48"
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
	if !r.rests && (r.record || r.c.Hash()%restful != 0) || r.bare || r.cluster || r.c.Disks+r.c.Devices > 0 ||
		len(r.inj.unreached()) > 0 {
		return
	}
	for _, c := range r.pods { // order-free: any of them
		if c.asked != nil && c.restless() {
			return
		}
	}
	r.resting = true
	r.restart(r.caseNodes[0], restartDelay)
	until := r.v.Now().Add(settle)
	r.pass(until, func() bool { return !r.v.Now().Before(until) })
	if why := r.unsettled(); why != "" && !r.broken() {
		r.disturbed("", "%s later %s", settle, why)
	}
}

// end waits until all is well and stays so.
func (r *runner) end() {
	limit := r.v.Now().Add(patience)
	for r.v.Now().Before(limit) {
		if !r.pass(limit, func() bool { return r.missing() == "" }) || r.broken() {
			break
		}
		stirred := r.watch()
		if r.broken() {
			return
		}
		if r.unsettled() == "" {
			if stirred != "" {
				r.violated(invariants.Violation{ID: busyForNothing, At: r.v.Now(), What: stirred})
			}
			for m := range r.there() {
				if !r.bare {
					m.rules.Settled()
				}
			}
			if !r.broken() {
				r.rest()
			}
			return
		}
	}
	if r.broken() {
		return
	}
	r.violated(invariants.Violation{
		ID: "L01", At: r.v.Now(),
		What: fmt.Sprintf("not all is well %s after the last operation: %s", patience, r.unsettled()),
	})
}

// watched is the part of settle, its last, in which nothing is to change: what a fault has left to do is done by then.
const watched = time.Minute

// watch lets pass the time for which all is to stay well, and returns what the agent did in the last part of it;
// empty if a fault struck, or if there may be a reason.
func (r *runner) watch() string {
	struck, until := len(r.inj.reached()), r.v.Now().Add(settle)
	calm := until.Add(-watched)
	r.pass(calm, func() bool { return !r.v.Now().Before(calm) })
	// Else something may still be under way, like a call that hangs. Of a cluster only the API tells whether all is
	// well, and a container that vanished may be seen there a minute later. A node that protects itself has something
	// to do.
	r.settling = r.steady() && r.c.Disks == 0 && r.caseNodes[0].rules.Calm() && r.unsettled() == ""
	r.stirred = ""
	r.pass(until, func() bool { return !r.v.Now().Before(until) })
	r.settling = false
	if len(r.inj.reached()) > struck {
		return ""
	}
	return r.stirred
}

// disturbed says that an agent which has nothing to do does something about a pod, empty for none.
func (r *runner) disturbed(pod, what string, args ...any) {
	switch {
	case r.resting:
		r.violated(invariants.Violation{
			ID: atRest, At: r.v.Now(),
			What: "the agent was killed and started while all was well: " + fmt.Sprintf(what, args...),
		})
	case r.settling && r.stirred == "":
		if c := r.pods[pod]; c == nil || c.asked == nil || !c.restless() {
			r.stirred = fmt.Sprintf("all had been well for %s, and the agent goes on: ", settle-watched) +
				fmt.Sprintf(what, args...)
		}
	}
}

// busy says what is under way at a node that should not be; empty if nothing is.
func (r *runner) busy(m *caseNode) string {
	for _, a := range r.world.System().Snapshot(m.Name()) {
		if a.Depth > 0 {
			return fmt.Sprintf("%d messages wait at %s", a.Depth, a.Path)
		}
		for _, e := range a.Effects {
			if e.Standing || strings.HasPrefix(e.Kind, "Watch") || e.Phase == kernel.EffectExpired ||
				strings.HasSuffix(e.Kind, "Probe") {
				continue
			}
			if since := m.Now().Sub(e.Since); since > time.Minute {
				return fmt.Sprintf("%s %s of %s is under way for %s", e.Kind, e.Object, a.Path, since)
			}
		}
	}
	return ""
}
