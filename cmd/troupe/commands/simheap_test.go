package commands

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/troupe-dev/troupe/supervisor/sim/run"
	"github.com/troupe-dev/troupe/supervisor/sim/scenario"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestHeapLimit(t *testing.T) {
	file := &scenario.File{Nodes: scenario.Nodes{Count: 5000}, Steps: []scenario.Step{
		{Create: &scenario.Create{Replicas: 100_000}}, {Create: &scenario.Create{Replicas: 50_000}},
	}}
	for name, c := range map[string]struct {
		o    run.Options
		want int64
	}{
		"a small one":   {run.Options{Nodes: 10, PodsPerNode: 30}, 256 << 20},
		"a large one":   {run.Options{Nodes: 5000, PodsPerNode: 30}, (5000*64<<10 + 150_000*8<<10) / 10 * 11},
		"of a scenario": {run.Options{Scenario: file}, (5000*64<<10 + 150_000*8<<10) / 10 * 11},
		"and more":      {run.Options{Scenario: file, Nodes: 10_000, PodsPerNode: 1}, (10_000*64<<10 + 160_000*8<<10) / 10 * 11},
	} {
		check.Equal(t, heapLimit(&c.o), c.want, "%s", name)
	}
}

// Whoever has set how memory is collected is not overruled.
func TestBoundHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	release := boundHeap(&run.Options{Nodes: 1})
	check.Equal(t, debug.SetMemoryLimit(-1), 256<<20, "the limit")
	release()
	check.Count(t, debug.SetMemoryLimit(-1), math.MaxInt64, "the limit is %d after the run")
	t.Setenv("GOGC", "50")
	release = boundHeap(&run.Options{Nodes: 1})
	defer release()
	check.Count(t, debug.SetMemoryLimit(-1), math.MaxInt64, "the limit is %d though GOGC is set")
}
