package podobjects

import (
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestCheck breaks the order of a Set.
func TestCheck(t *testing.T) {
	a, b := Entry{Ref: Ref{Kind: Secret, Name: "a"}}, Entry{Ref: Ref{Kind: Secret, Name: "b"}}
	for _, entries := range [][]Entry{{b, a}, {a, a}} {
		check.Says(t, Set{entries: entries}.Check(), "sorted by Ref, each Ref once", "%v", entries)
	}
	check.Error(t, NewSet([]Entry{b, a}).Check())
}
