package chaos

import (
	"os"
	"testing"

	"github.com/troupe-dev/troupe/tests/actortest"
)

// TestPairs runs some pairs of faults on the life of one pod; TROUPE_PAIRS=all runs every one.
func TestPairs(t *testing.T) {
	most := 500
	switch {
	case os.Getenv("TROUPE_PAIRS") == "all":
		most = 1 << 30
	case actortest.Raced || testing.Short():
		most = 50
	case full():
		most = 2000
	}
	var tally Summary
	n := Pairs(t.Context(), Lives()[0], 0, func(r *Result) bool {
		tally.Add(r)
		return tally.Cases < most
	})
	fail(t, &tally)
	t.Logf("%d single faults, %d pairs, %d run", n.Singles, n.Pairs, n.Run)
	if tally.Stale > tally.Cases/100 {
		t.Errorf("%d of %d pairs were stale: their second fault was to be where the first had been", tally.Stale, tally.Cases)
	}
}

// TestPairsArePruned: a fault that strikes a node in the state in which it struck another is not run
// again, and no pair is run twice.
func TestPairsArePruned(t *testing.T) {
	var n Pairing
	ran := map[uint64]bool{}
	for c := range pairs(Lives()[0], &n) {
		if len(c.Faults) != 2 || ran[c.Hash()] {
			t.Fatalf("pair %d: %s", n.Run, c.Line())
		}
		if ran[c.Hash()] = true; len(ran) == 1000 {
			break
		}
	}
	if n.Run != 1000 || n.Singles < 2 || n.Pairs < 2*n.Run {
		t.Errorf("%d pairs of %d are run, after %d single faults", n.Run, n.Pairs, n.Singles)
	}
}
