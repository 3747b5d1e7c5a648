package pod

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
)

// TestTroubleOfOneInstant: of failures at one instant the same is shown each time, whatever the order of the map.
func TestTroubleOfOneInstant(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	failed := func(at time.Time, reason, message string) podplan.Failure {
		return podplan.Failure{Count: 1, At: at, Reason: reason, Message: message}
	}
	for name, c := range map[string]struct {
		pod, sandbox podplan.Failure
		want         string
	}{
		"the newest":     {failed(at, "A", "z"), failed(at.Add(1), "B", "a"), "B: a"},
		"the message":    {failed(at, "B", "a"), failed(at, "A", "b"), "A: b"},
		"the reason":     {failed(at, "A", "same"), failed(at, "B", "same"), "B: same"},
		"one that is on": {podplan.Failure{At: at, Reason: "A", Message: "same"}, failed(at, "A", "same"), "A: same"},
	} {
		p := &pod{stop: &podlife.Stop{}}
		p.facts.Failures = map[podplan.Lane]podplan.Failure{
			{Kind: podplan.LanePod}: c.pod, {Kind: podplan.LaneSandbox}: c.sandbox,
		}
		for range 50 {
			if got := p.trouble(); got != c.want {
				t.Errorf("%s: %s, want %s", name, got, c.want)
				break
			}
		}
	}
}
