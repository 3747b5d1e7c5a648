package probe

import (
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestCheck breaks the invariant of the next runs.
func TestCheck(t *testing.T) {
	for hurry, broken := range map[int64]bool{0: false, 1: false, 2: true, 3: true} {
		s := State{hurry: hurry, due: 2}
		if err := s.Check(); broken {
			check.Says(t, err, "hurry == 0 || hurry < due", "hurry %d of 2", hurry)
		} else {
			check.Error(t, err)
		}
	}
}
