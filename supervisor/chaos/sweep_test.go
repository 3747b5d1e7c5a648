package chaos

import (
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/tests/actortest"
)

// TestSweep runs single faults at the points of every life. With the race detector, which
// makes it ten times slower, and with -short it takes one of many; task chaos takes all.
func TestSweep(t *testing.T) {
	var tally Tally
	for i, l := range Lives() {
		cases := Singles(l)
		if actortest.Raced || testing.Short() {
			cases = slices.Collect(func(yield func(c *plan.Case) bool) {
				for k := i; k < len(cases) && yield(cases[k]); k += 61 {
				}
			})
		}
		Each(t.Context(), cases, 0, func(r *Result) bool { tally.Add(r); return true })
	}
	fail(t, &tally)
}
