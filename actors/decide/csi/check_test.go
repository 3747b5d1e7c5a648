package csi

import (
	"testing"
	"time"

	must "github.com/troupe-dev/troupe/tests/check"
)

// TestCheck breaks the invariant of Turns.
func TestCheck(t *testing.T) {
	never, answered := &Turn{}, &Turn{at: time.Unix(1, 0)}
	for name, q := range map[string]*Turns{"fresh": {fresh: []*Turn{answered}}, "waiting": {waiting: []*Turn{never}}} {
		must.Says(t, q.Check(), name+": at is zero in fresh only", "the other one is %s", name)
	}
	q := Turns{fresh: []*Turn{never}, waiting: []*Turn{answered}}
	must.Error(t, q.Check())
}
