package growth

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/linear"
)

// TestFields: each list of a pod has a shape, or a reason why it has none.
func TestFields(t *testing.T) {
	shaped := map[string]bool{}
	for _, s := range Shapes() {
		shaped[Of(s.Name)] = true
	}
	fields := Fields()
	for _, f := range fields {
		if _, few := Few[f]; few == shaped[f] {
			t.Errorf("%s: has a shape: %v, has a reason why none: %v; want one of the two", f, shaped[f], few)
		}
	}
	for f := range shaped {
		if !slices.Contains(fields, f) {
			t.Errorf("%s is no list of a pod", f)
		}
	}
	for f := range Few {
		if !slices.Contains(fields, f) {
			t.Errorf("%s is no list of a pod", f)
		}
	}
}

// TestGrowth: no handler grows faster than the pod.
func TestGrowth(t *testing.T) {
	full := os.Getenv("TROUPE_GROWTH") == "full" // takes too long for test-all
	table := map[string]cost{}
	for _, s := range Shapes() {
		t.Run(strings.ReplaceAll(s.Name, " ", "_"), func(t *testing.T) {
			n := usual
			if s.ofContainers() {
				n *= 2 // their messages are many, and each is cheap
			}
			if full {
				n = s.Most / 4
			}
			var bad []string
			var little, much costs
			for range tries {
				linear.Measured(func() { much = least(much, run(t, &s, 4*n)) })
				linear.Measured(func() { little = least(little, run(t, &s, n)) })
				if bad = faults(&s, little, much); len(bad) == 0 {
					break
				}
			}
			for _, b := range bad {
				t.Error(b)
			}
			for name, c := range much {
				table[s.Name+" | "+name] = c
			}
		})
	}
	if full || testing.Verbose() {
		dearest(t, table)
	}
}

const (
	// usual is a quarter of how many there are of each in the usual size.
	usual = 50
	// tries is how often is measured at most.
	tries = 6
)

// dearest shows the dearest handlers.
func dearest(t *testing.T, table map[string]cost) {
	names := sortedKeys(table)
	slices.SortStableFunc(names, func(a, b string) int { return int(table[b].all() - table[a].all()) })
	for _, name := range names[:min(len(names), 40)] {
		c := table[name]
		t.Logf("| %s | %d | %v | %v |", name, len(c), c.all().Round(10*time.Microsecond),
			c.most().Round(10*time.Microsecond))
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
