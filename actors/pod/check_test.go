package pod

import (
	"testing"

	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestCheck breaks the invariant of lanes, in both directions.
func TestCheck(t *testing.T) {
	const words = "facts.Busy and lanes have one entry for each effect of this pod that has not ended, including those of an " +
		"earlier incarnation"
	p, one, other := &pod{}, podplan.Lane{Kind: podplan.LaneSandbox}, podplan.Lane{Kind: podplan.LaneContainer, Name: "app"}
	p.lanes.Set(1, one)
	check.Says(t, p.Check(), words, "the planner does not know of it")
	p.facts.Busy.Set(one, podplan.RunSandbox{})
	check.Error(t, p.Check())
	p.facts.Busy.Set(other, podplan.StartContainer{})
	check.Says(t, p.Check(), words, "the actor does not know of it")
	p.facts.Busy.Delete(one)
	check.Says(t, p.Check(), words, "they know of different ones")
}
