package chaos

import (
	"testing"

	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/tests/check"
)

// BenchmarkCases runs the cases of seeds, with the rules and without, to compare the two,
// and makes worlds in which nothing happens.
func BenchmarkCases(b *testing.B) {
	var cases []*plan.Case
	for seed := range uint64(100) {
		c, _ := Draw(seed, plan.Profile{})
		cases = append(cases, c)
	}
	b.Run("rules", func(b *testing.B) {
		for i := range b.N {
			Run(cases[i%len(cases)])
		}
	})
	b.Run("bare", func(b *testing.B) {
		for i := range b.N {
			Run(cases[i%len(cases)], WithoutRules())
		}
	})
	b.Run("world", func(b *testing.B) {
		for range b.N {
			w := check.Value(sim.New(sim.Config{Bare: true}))(b)
			check.Value(w.AddNode(sim.NodeSpec{Cgroups: true, Manifests: true}))(b)
		}
	})
}
