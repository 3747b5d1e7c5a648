package chaos

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
)

// TestSeeds runs the cases of some seeds. TROUPE_CASES=N runs so many.
func TestSeeds(t *testing.T) {
	n := 300
	if s := os.Getenv("TROUPE_CASES"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	var stale int
	var messages uint64
	rules := map[string]int{}
	for seed := range uint64(n) {
		c, twin := Draw(seed, plan.Profile{})
		if len(twin.Violations) > 0 {
			rules["twin "+twin.Violations[0].ID]++
			if rules["twin "+twin.Violations[0].ID] < 4 {
				t.Errorf("without faults: %v\n%s", twin.Violations[0], Shrink(twin, 5*time.Second).Case.Line())
			}
			continue
		}
		r := Run(c)
		messages += r.Messages
		if why := Beside(r, twin); why != "" {
			if rules["isolation"]++; rules["isolation"] < 3 {
				t.Errorf("%s\n%s", why, r.Case.Line())
			}
		}
		switch r.Verdict() {
		case Violated:
			id := r.Violations[0].ID
			if rules[id]++; rules[id] < 6 {
				s := Shrink(r, 5*time.Second)
				t.Errorf("%v\n%s", s.Violations[0], s.Case.Line())
			}
		case Stale:
			stale++
		}
	}
	t.Logf("%d cases, %d stale, %d messages: %v", n, stale, messages, rules)
}
