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
func TestSeeds(t *testing.T) {
	n := uint64(500)
	if full() {
		n = 2000
	}
	if actortest.Raced || testing.Short() {
		n = 100
	}
	if s := os.Getenv("TROUPE_CASES"); s != "" {
		var err error
		if n, err = strconv.ParseUint(s, 10, 64); err != nil || n == 0 {
			t.Fatalf("TROUPE_CASES=%s: %v", s, err)
		}
	}
	var tally Tally
	Seeds(t.Context(), 1, n, 0, plan.Profile{}, func(r *Result) bool {
		tally.Add(r)
		return true
	})
	fail(t, &tally)
}

// fail tells of violated cases, a few of each rule.
func fail(t *testing.T, tally *Tally) {
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
