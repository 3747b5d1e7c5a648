package chaos

import (
	"testing"

	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
)

func parse(t testing.TB, text string) *plan.Case {
	t.Helper()
	c, err := plan.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestQuietLives: without faults every kind of life holds every rule.
func TestQuietLives(t *testing.T) {
	for _, l := range Lives() {
		t.Run(l.Name, func(t *testing.T) {
			r := Run(l.Case)
			if r.Verdict() != Held {
				t.Errorf("%s: %v %v", r.Verdict(), r.Violations, r.Unreached)
			}
			t.Log(r.Messages, r.Simulated, r.Writes, r.Changes, r.Ready)
		})
	}
}
