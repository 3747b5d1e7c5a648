package csicode

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestKinds: each code is final or not, and can be given back to the controller or not.
func TestKinds(t *testing.T) {
	unsure := map[codes.Code]bool{
		codes.Canceled: true, codes.DeadlineExceeded: true, codes.Unavailable: true, codes.ResourceExhausted: true, codes.Aborted: true,
	}
	infeasible := map[codes.Code]bool{codes.InvalidArgument: true, codes.OutOfRange: true, codes.NotFound: true}
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		got := port.CSIOutcome(&port.Error{Kind: Kind(c)})
		check.Equal(t, got, map[bool]csi.Outcome{true: csi.Unsure, false: csi.Refused}[unsure[c]], "%s", c)
		if got := Expansion(c) == port.Invalid; got != infeasible[c] || !got && Expansion(c) != Kind(c) {
			t.Errorf("%s: infeasible %v", c, got)
		}
	}
}
