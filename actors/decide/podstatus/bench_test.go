package podstatus_test

import (
	"testing"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
)

// BenchmarkCompute: nothing has changed, which is what almost every call finds.
func BenchmarkCompute(b *testing.B) {
	for _, c := range []struct {
		name string
		view []observed.Container
	}{
		{"steady", []observed.Container{running("a", 0)}},
		{"steady, restarted once", []observed.Container{running("a", 1), exited("a", 0, 1)}},
		{"crash loop", []observed.Container{exited("a", 1, 1), exited("a", 0, 1)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			in := baseInput()
			in.Plan.View.Containers = c.view
			in.Out = podplan.Plan(in.Plan)
			s := podstatus.Compute(in)
			in.Previous = &s
			b.ReportAllocs()
			for b.Loop() {
				if r := podstatus.Compute(in); !podstatus.Equal(&r, &s) {
					b.Fatal("changed")
				}
			}
		})
	}
}
