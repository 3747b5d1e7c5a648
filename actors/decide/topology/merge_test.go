package topology

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/tests/check"
)

const (
	none       = kubelet.NoneTopologyManagerPolicy
	bestEffort = kubelet.BestEffortTopologyManagerPolicy
	restricted = kubelet.RestrictedTopologyManagerPolicy
	single     = kubelet.SingleNumaNodeTopologyManagerPolicy
)

// nodesOf is a machine of some nodes, each with a CPU. far says how far apart two nodes are.
func nodesOf(ids []int, far func(a, b int) int) *Machine {
	t := &Machine{}
	for _, id := range ids {
		n := Node{ID: id, Memory: 1 << 30}
		for _, other := range ids {
			n.Distances = append(n.Distances, far(id, other))
		}
		t.Nodes = append(t.Nodes, n)
		t.CPUs = append(t.CPUs, CPU{ID: id, Core: id, Socket: id, Node: id})
	}
	return t
}

func line(a, b int) int { return 10 + 10*max(a-b, b-a) }

func count(n int) (ids []int) {
	for id := range n {
		ids = append(ids, id)
	}
	return ids
}

func policy(t testing.TB, name string, ids []int, far func(a, b int) int, o Options) *Policy {
	t.Helper()
	o.MaxNodes = max(o.MaxNodes, 8)
	return check.Value(New(nodesOf(ids, far), name, o))(t)
}

func TestMerge(t *testing.T) {
	yes := func(ids ...int) Hint { return Hint{NodesOf(ids...), true} }
	no := func(ids ...int) Hint { return Hint{NodesOf(ids...), false} }
	for _, c := range []struct {
		name      string
		policy    string
		o         Options
		resources [][]Hint
		want      Hint
		admit     bool
	}{
		{"none", none, Options{}, [][]Hint{{no(0)}}, Hint{}, true},
		{"no resources", restricted, Options{}, nil, yes(0, 1, 2, 3), true},
		{"no resources", single, Options{}, nil, yes(), true},
		{"no preference", restricted, Options{}, [][]Hint{Any(), Any()}, yes(0, 1, 2, 3), true},
		{"never", bestEffort, Options{}, [][]Hint{Never()}, no(0, 1, 2, 3), true},
		{"never", restricted, Options{}, [][]Hint{Never()}, no(0, 1, 2, 3), false},
		{"never", single, Options{}, [][]Hint{{}}, no(), false},
		{"both on one node", single, Options{}, [][]Hint{{yes(0), yes(1), no(0, 1)}, {yes(1), no(0, 1)}}, yes(1), true},
		{"on different nodes", single, Options{}, [][]Hint{{yes(0), no(0, 1)}, {yes(1), no(0, 1)}}, no(), false},
		{"on different nodes", restricted, Options{}, [][]Hint{{yes(0), no(0, 1)}, {yes(1), no(0, 1)}}, no(0), false},
		{"on different nodes", bestEffort, Options{}, [][]Hint{{yes(0), no(0, 1)}, {yes(1), no(0, 1)}}, no(0), true},
		{"two nodes are needed", restricted, Options{}, [][]Hint{{yes(0, 1), yes(2, 3)}, {yes(2, 3)}}, yes(2, 3), true},
		{"two nodes are needed", single, Options{}, [][]Hint{{yes(0, 1)}}, no(), false},
		{"as many as the largest needs", bestEffort, Options{},
			[][]Hint{{yes(0), yes(1), no(0, 1)}, {no(0, 1), no(0, 1, 2)}}, no(0, 1), true},
		{"lower numbers", restricted, Options{}, [][]Hint{{yes(0, 3), yes(1, 2)}}, yes(1, 2), true},
		{"closest", restricted, Options{PreferClosest: true}, [][]Hint{{yes(0, 2), yes(2, 3)}}, yes(2, 3), true},
		{"not closest", restricted, Options{}, [][]Hint{{yes(0, 2), yes(2, 3)}}, yes(0, 2), true},
		{"no shared node", restricted, Options{}, [][]Hint{{yes(0)}, {yes(1)}}, no(0, 1, 2, 3), false},
	} {
		got, admit := policy(t, c.policy, count(4), line, c.o).Merge(c.resources)
		if got != c.want || admit != c.admit {
			t.Errorf("%s: %s: %v %v, want %v %v", c.policy, c.name, got, admit, c.want, c.admit)
		}
	}
}

// bruteForce tries all choices, one after the other, as KEP-693 defines the merge.
func bruteForce(p *Policy, resources [][]Hint) (Hint, bool) {
	if p.name == none {
		return Hint{}, true
	}
	var lists [][]Hint
	for _, list := range resources {
		if len(list) == 0 {
			list = []Hint{{}}
		}
		var kept []Hint
		for _, h := range list {
			if p.name != single || h.Preferred && h.Nodes.Size() <= 1 {
				kept = append(kept, h)
			}
		}
		lists = append(lists, kept)
	}
	most := 0
	for _, list := range lists {
		least := 100
		for _, h := range list {
			if h.Nodes != 0 {
				least = min(least, h.Nodes.Size())
			}
		}
		if least < 100 {
			most = max(most, least)
		}
	}
	var best *Hint
	var try func(i int, chosen []Hint)
	try = func(i int, chosen []Hint) {
		if i < len(lists) {
			for _, h := range lists[i] {
				try(i+1, append(chosen[:i:i], h))
			}
			return
		}
		merged := Hint{Nodes: p.nodes, Preferred: true}
		var first Nodes
		for _, h := range chosen {
			merged.Preferred = merged.Preferred && h.Preferred
			if h.Nodes == 0 {
				continue
			}
			if first == 0 {
				first = h.Nodes
			}
			merged.Preferred = merged.Preferred && h.Nodes == first
			merged.Nodes &= h.Nodes
		}
		if merged.Nodes != 0 && (best == nil || replaces(p, merged, *best, most)) {
			best = &merged
		}
	}
	try(0, nil)
	if best == nil {
		best = &Hint{Nodes: p.nodes}
	}
	if p.name == single && best.Nodes == p.nodes {
		best.Nodes = 0
	}
	return *best, best.Preferred || p.name == bestEffort
}

// replaces says whether a choice replaces the best one so far, case by case.
func replaces(p *Policy, candidate, current Hint, most int) bool {
	fitter := func() bool {
		a, b := candidate.Nodes, current.Nodes
		if a.Size() == b.Size() && p.closest {
			average := func(n Nodes) float64 {
				sum, pairs := 0.0, 0.0
				for _, x := range n.List() {
					for _, y := range n.List() {
						sum, pairs = sum+float64(p.distance[x][y]), pairs+1
					}
				}
				return sum / pairs
			}
			if average(a) != average(b) {
				return average(a) < average(b)
			}
		}
		return a.Size() < b.Size() || a.Size() == b.Size() && a < b
	}
	have, had := candidate.Nodes.Size(), current.Nodes.Size()
	switch {
	case candidate.Preferred != current.Preferred:
		return candidate.Preferred
	case candidate.Preferred, had > most:
		return fitter()
	case had == most:
		return have == most && fitter()
	case have > most:
		return false
	case have == most, have > had:
		return true
	case have < had:
		return false
	default:
		return fitter()
	}
}

// draw makes a policy and hints for it.
func draw(t testing.TB, r *rand.Rand) (*Policy, [][]Hint) {
	ids := count(1 + r.IntN(8))
	if r.IntN(4) == 0 { // numbers with gaps
		for i := range ids {
			ids[i] = ids[i]*7 + r.IntN(7)
		}
	}
	far := map[[2]int]int{}
	p := policy(t, []string{none, bestEffort, restricted, single}[r.IntN(4)], ids, func(a, b int) int {
		key := [2]int{min(a, b), max(a, b)}
		if _, ok := far[key]; !ok {
			far[key] = 10 + r.IntN(4)
		}
		return far[key]
	}, Options{PreferClosest: r.IntN(2) == 0})
	resources := make([][]Hint, r.IntN(5))
	for i := range resources {
		for range r.IntN(6) {
			var nodes Nodes
			for range r.IntN(len(ids) + 1) {
				nodes |= NodesOf(ids[r.IntN(len(ids))])
			}
			resources[i] = append(resources[i], Hint{nodes, r.IntN(3) > 0})
		}
	}
	return p, resources
}

// TestMergeAsBruteForce compares with all choices.
func TestMergeAsBruteForce(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	kinds := map[string]int{}
	for i := range 100_000 {
		p, resources := draw(t, r)
		want, wantAdmit := bruteForce(p, resources)
		got, admit := p.Merge(resources)
		if got != want || admit != wantAdmit {
			t.Fatalf("seed %d, case %d: %s of %b, %v: %v %v, want %v %v", seed, i, p.name, p.nodes, resources,
				got, admit, want, wantAdmit)
		}
		kinds[fmt.Sprintf("%s preferred=%v", p.name, got.Preferred)]++
		r.Shuffle(len(resources), func(i, j int) { resources[i], resources[j] = resources[j], resources[i] })
		if again, _ := p.Merge(resources); again != got {
			t.Fatalf("seed %d, case %d: %v in another order, was %v", seed, i, again, got)
		}
		if dense, sparse := p.shared(resources, 64), p.shared(resources, 0); !slices.Equal(dense, sparse) {
			t.Fatalf("seed %d, case %d: with a table %b, without %b", seed, i, dense, sparse)
		}
	}
	for _, name := range []string{bestEffort, restricted, single} {
		for _, preferred := range []bool{false, true} {
			check.AtLeast(t, kinds[fmt.Sprintf("%s preferred=%v", name, preferred)], 1000, "few cases of a kind: %v", kinds)
		}
	}
}

func TestNew(t *testing.T) {
	many := nodesOf(count(17), line)
	sparse := nodesOf(count(34), line)
	sparse.CPUs = sparse.CPUs[:2]
	for i := range sparse.Nodes[2:] {
		sparse.Nodes[2+i].Memory = 0
	}
	unknown := nodesOf(count(2), line)
	unknown.Nodes[1].Distances = nil
	for _, c := range []struct {
		name   string
		t      *Machine
		policy string
		o      Options
		ok     bool
	}{
		{"8 nodes", nodesOf(count(8), line), single, Options{MaxNodes: 8}, true},
		{"9 nodes", nodesOf(count(9), line), single, Options{MaxNodes: 8}, false},
		{"9 nodes, allowed", nodesOf(count(9), line), single, Options{MaxNodes: 9}, true},
		{"9 nodes, none", nodesOf(count(9), line), none, Options{MaxNodes: 8}, true},
		{"too many nodes", many, restricted, Options{MaxNodes: 99}, false},
		{"many empty nodes", sparse, restricted, Options{MaxNodes: 99}, true},
		{"node 64", nodesOf([]int{0, 64}, line), restricted, Options{MaxNodes: 8}, false},
		{"unknown distances", unknown, restricted, Options{MaxNodes: 8, PreferClosest: true}, false},
		{"unknown distances, unused", unknown, restricted, Options{MaxNodes: 8}, true},
		{"unknown policy", nodesOf(count(1), line), "x", Options{MaxNodes: 8}, false},
	} {
		p, err := New(c.t, c.policy, c.o)
		check.Equal(t, err == nil, c.ok, "%s: %v", c.name, err)
		if c.name == "many empty nodes" {
			if got, ok := p.Merge([][]Hint{{{NodesOf(1), true}, {NodesOf(0, 1), false}}}); !ok || got.Nodes != NodesOf(1) {
				t.Errorf("%s: %v", c.name, got)
			}
		}
	}
}

func TestParseOptions(t *testing.T) {
	for _, c := range []struct {
		options map[string]string
		want    Options
		ok      bool
	}{
		{nil, Options{MaxNodes: 8}, true},
		{map[string]string{PreferClosest: "true", MaxNodes: "12"}, Options{true, 12}, true},
		{map[string]string{PreferClosest: "often"}, Options{}, false},
		{map[string]string{MaxNodes: "7"}, Options{}, false},
		{map[string]string{MaxNodes: "many"}, Options{}, false},
		{map[string]string{"fastest": "true"}, Options{}, false},
	} {
		got, err := ParseOptions(c.options)
		if (err == nil) != c.ok || c.ok && got != c.want {
			t.Errorf("%v: %+v, %v", c.options, got, err)
		}
	}
}

func TestGroups(t *testing.T) {
	spec := &v1.PodSpec{InitContainers: []v1.Container{{Name: "i"}}, Containers: []v1.Container{{Name: "a"}, {Name: "b"}}}
	for scope, want := range map[string][]int{kubelet.PodTopologyManagerScope: {3}, kubelet.ContainerTopologyManagerScope: {1, 1, 1}} {
		var got []int
		for _, g := range Groups(scope, spec) {
			got = append(got, len(g))
		}
		check.Same(t, got, want, "%s", scope)
	}
	if r := Rejection("container", false); r.Reason != "TopologyAffinityError" || r.Message != "Resources cannot be allocated with Topology locality" {
		t.Errorf("%+v", r)
	}
	if container, pod := Rejection("container", true), Rejection("pod", true); reflect.DeepEqual(container, pod) || reflect.DeepEqual(pod, Rejection("pod", false)) {
		t.Errorf("%+v, %+v", container, pod)
	}
}

// BenchmarkMerge merges for 8 nodes and a pod that asks for CPUs, memory and two devices of each of 8 kinds. Of each kind
// there is one device on each of two nodes, two nodes further for the next kind, so that no choice is preferred and all
// sets of shared nodes are found. The hints have 255² · 64⁸ choices.
func BenchmarkMerge(b *testing.B) {
	for _, name := range []string{bestEffort, restricted, single} {
		b.Run(name, func(b *testing.B) {
			p := policy(b, name, count(8), line, Options{PreferClosest: true})
			resources := [][]Hint{subsets(1, 0, 0), subsets(1, 0, 0)}
			for kind := range 8 {
				resources = append(resources, subsets(2, kind, (kind+3)%8))
			}
			for b.Loop() {
				p.Merge(resources)
			}
		})
	}
}

// subsets are the hints of a resource over 8 nodes, as providers make them: each set of nodes that has enough. With
// need 1 every node has enough. Otherwise there is one device on each of two nodes.
func subsets(need, a, b int) (out []Hint) {
	for set := Nodes(1); set < 1<<8; set++ {
		if need == 1 || set.Has(a) && set.Has(b) {
			out = append(out, Hint{set, set.Size() == need})
		}
	}
	return out
}
