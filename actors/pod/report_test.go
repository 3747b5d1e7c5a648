package pod

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/tests/check"
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
			if got, _ := p.trouble(); got != c.want {
				t.Errorf("%s: %s, want %s", name, got, c.want)
				break
			}
		}
	}
}

// TestResists: a pod that is to end resists if the stop of what lives, or of its sandbox, has failed, or if its claims
// can't be released.
func TestResists(t *testing.T) {
	alive := observed.Container{ID: "c", Name: "app", State: observed.ContainerRunning}
	dead := observed.Container{ID: "c", Name: "app", State: observed.ContainerExited}
	for name, c := range map[string]struct {
		stop *podlife.Stop
		kind podplan.LaneKind
		of   observed.Container
		want bool
	}{
		"a container": {&podlife.Stop{}, podplan.LaneStop, alive, true}, "that has ended": {&podlife.Stop{}, podplan.LaneStop, dead, false},
		"to be restarted": {nil, podplan.LaneStop, alive, false}, "a sandbox": {&podlife.Stop{}, podplan.LaneSandbox, dead, true},
		"it can't be read": {&podlife.Stop{}, podplan.LaneInspect, alive, false},
	} {
		p := &pod{stop: c.stop}
		p.facts.View.Containers = []observed.Container{c.of}
		p.facts.Failures = map[podplan.Lane]podplan.Failure{{Kind: c.kind, Name: "c"}: {Count: 1}}
		_, got := p.trouble()
		check.Equal(t, got, c.want, "%s: it resists", name)
	}
	const absent = "its driver is not registered"
	for name, c := range map[string]struct {
		stop *podlife.Stop
		of   claims.Pod
		want bool
	}{
		"claims":                        {&podlife.Stop{}, claims.Pod{State: claims.Going, Message: absent}, true},
		"that are released":             {&podlife.Stop{}, claims.Pod{State: claims.Released}, false},
		"just now":                      {&podlife.Stop{}, claims.Pod{State: claims.Going}, false},
		"that are not there yet":        {&podlife.Stop{}, claims.Pod{State: claims.Pending, Message: absent}, false},
		"of a pod that ended by itself": {nil, claims.Pod{State: claims.Going, Message: absent}, false},
	} {
		p := &pod{stop: c.stop}
		p.facts.Claims = &c.of
		_, got := p.trouble()
		check.Equal(t, got, c.want, "%s: it resists", name)
	}
}
