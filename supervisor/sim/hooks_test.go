package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/tests/check"
)

// settles runs ten pods on two nodes, kills an agent, scales to five, and gives the hash of it all.
func settles(t *testing.T, c Config) uint64 {
	t.Helper()
	w := check.Value(New(c))(t)
	nodes := check.Value(w.AddNodes(2, NodeSpec{}))(t)
	for _, n := range []int{10, 5} {
		check.Fatal(t, w.Deploy("app", n, "registry.test/app:1"))
		nodes[0].RestartAgent()
		if !w.RunUntil(10*time.Minute, func() bool { return w.Ready() == n && w.Metrics().Pods == n }) {
			t.Fatalf("%d pods are ready, want %d", w.Ready(), n)
		}
	}
	return w.TraceHash()
}

// TestSchedules: whatever the order of messages, all pods come up, and each order is another run.
func TestSchedules(t *testing.T) {
	seen := map[uint64]string{}
	for name, s := range map[string]kernel.Schedule{
		"uniform":    {},
		"priorities": {Priorities: true, Changes: 20, Span: 5000},
		"starve":     {Starve: func(path string) bool { return strings.HasSuffix(path, "/podset") }},
		"cost":       {Cost: time.Millisecond},
	} {
		hash := settles(t, Config{Seed: 3, Schedule: s})
		if other, is := seen[hash]; is {
			t.Errorf("%s is the same run as %s", name, other)
		}
		seen[hash] = name
		check.Equal(t, settles(t, Config{Seed: 3, Schedule: s}), hash, "%s: two runs of one seed differ", name)
	}
}

// TestMessagesMeddledWith: pods come up although messages between actors are late, doubled, or lost
// as from full mailboxes, and actors panic between two sends.
func TestMessagesMeddledWith(t *testing.T) {
	n, panics, nodes := 0, 0, map[string]bool{}
	c := Config{Seed: 1, Hooks: Hooks{
		Message: func(node, from, to string, _ any) kernel.Fate {
			n++
			nodes[node] = strings.HasPrefix(from, node) && strings.HasPrefix(to, node)
			switch {
			case n%7 == 0:
				return kernel.Fate{Delay: 300 * time.Millisecond}
			case n%11 == 0:
				return kernel.Fate{Twice: true}
			}
			return kernel.Fate{}
		},
		Within: func(_, actor string, m any, k int) {
			if actor == "podset" && m != nil && k == 2 && panics < 3 {
				panics++
				panic("planted")
			}
		},
	}}
	settles(t, c)
	if n < 100 || len(nodes) != 2 || !nodes["n00000"] || !nodes["n00001"] || panics == 0 {
		t.Errorf("%d messages of the nodes %v, and %d panics", n, nodes, panics)
	}
}
