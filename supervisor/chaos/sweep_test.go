package chaos

import (
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/tests/actortest"
)

// TestSweep runs one of ten single faults at the points of every life, of long lives fewer (Life.Stride), and of three in
// the run of all tests. With the race detector, which makes it ten times slower, and with -short it takes one of many; task
// chaos takes all.
func TestSweep(t *testing.T) {
	var tally Summary
	for i, l := range Lives() {
		cases, stride := Singles(l), max(l.Stride, 10)
		if full() {
			stride = max(l.Stride, 3)
		}
		if actortest.Raced || testing.Short() {
			stride = 301
		}
		cases = slices.Collect(func(yield func(c *plan.Case) bool) {
			for k := i % stride; k < len(cases) && yield(cases[k]); k += stride {
			}
		})
		Each(t.Context(), cases, 0, func(r *Result) bool { tally.Add(r); return true })
	}
	fail(t, &tally)
}
