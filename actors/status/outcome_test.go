package status

import (
	"errors"
	"testing"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestOutcomes: what a call has come to, for each end of it.
func TestOutcomes(t *testing.T) {
	for err, want := range map[error]outcome{
		nil: accepted, &port.Error{Kind: port.Deadline}: unanswered, &port.Error{Kind: port.Conflict}: notAccepted,
		&port.Error{Kind: port.Unavailable}: notAccepted, errors.New("other"): notAccepted,
	} {
		check.Equal(t, outcomeOf(err), want, "of %v", err)
	}
	r := &record{}
	for is, failed := range map[outcome]bool{notAccepted: false, accepted: false, unanswered: true} {
		r.last = is
		check.Equal(t, r.failedLast(), failed, "%v: the last call failed", is)
	}
	r.last, r.failures = notAccepted, 1
	check.Equal(t, r.failedLast(), true, "with a failure")
}
