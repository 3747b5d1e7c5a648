package chaos

import (
	"fmt"
	"testing"
)

// TestSweep runs every single fault at every point of every life.
func TestSweep(t *testing.T) {
	for _, l := range Lives() {
		t.Run(l.Name, func(t *testing.T) {
			var tally Tally
			Each(t.Context(), Singles(l), 0, func(r *Result) bool { tally.Add(r); return true })
			seen := map[string]int{}
			for _, r := range tally.Failures {
				key := fmt.Sprint(r.Violations[0].ID, " ", r.Case.Faults[0].Effect.Do)
				if seen[key]++; seen[key] < 4 {
					t.Errorf("%v\n%s", r.Violations[0], r.Case.Line())
				}
			}
			t.Logf("%d cases, %d held, %d violated, %d stale: %v", tally.Cases, tally.Held, tally.Violated, tally.Stale, seen)
		})
	}
}
