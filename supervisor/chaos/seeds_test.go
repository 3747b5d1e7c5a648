package chaos

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/tests/actortest"
)

// full says whether all tests are to run with all they have, as go tool task test-all does.
func full() bool { return os.Getenv("TROUPE_TEST_SIZE") == "full" }

// TestSeeds runs the cases of some seeds. TROUPE_CASES=N runs so many.
func TestSeeds(t *testing.T) { seeds(t, "TROUPE_CASES", 500, plan.Profile{}) }

// seeds runs the cases of n seeds, or of as many as a variable says.
func seeds(t *testing.T, variable string, n uint64, p plan.Profile) {
	t.Helper()
	if full() {
		n *= 4
	}
	if actortest.Raced || testing.Short() {
		n = min(n, 100)
	}
	if s := os.Getenv(variable); s != "" {
		var err error
		if n, err = strconv.ParseUint(s, 10, 64); err != nil || n == 0 {
			t.Fatalf("%s=%s: %v", variable, s, err)
		}
	}
	var tally Summary
	Seeds(t.Context(), 1, n, 0, p, func(r *Result) bool {
		tally.Add(r)
		return true
	})
	fail(t, &tally)
}

// fail tells of violated cases, a few of each rule.
func fail(t *testing.T, tally *Summary) {
	t.Helper()
	told := map[string]int{}
	for _, r := range tally.Failures {
		id := r.Violations[0].ID
		if told[id]++; told[id] <= 3 {
			r = Shrink(t.Context(), r, 10*time.Second)
			t.Errorf("%v\n%s", r.Violations[0], r.Case.Line())
		}
	}
	t.Logf("%d cases, %d held, %d violated, %d stale, %d messages, %v: %v", tally.Cases, tally.Held, tally.Violated,
		tally.Stale, tally.Messages, tally.Simulated, told)
	for _, line := range tally.CoverageTable() {
		t.Log(line)
	}
}
