package gc

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestCheck breaks the invariants one by one.
func TestCheck(t *testing.T) {
	g := &gc{of: map[types.UID]*collection{}, resting: []types.UID{"a"}}
	const words = "resting: each has a collection with nothing pending"
	check.Says(t, g.Check(), words, "it has none")
	g.of["a"] = &collection{pending: map[kernel.EffectID]bool{1: true}}
	check.Says(t, g.Check(), words, "it has begun")
	clear(g.of["a"].pending)
	check.Error(t, g.Check())
	g.orphans = []types.UID{"b"}
	check.Says(t, g.Check(), "orphans: telling unless there is none", "no timer runs")
	g.telling = true
	check.Error(t, g.Check())
}
