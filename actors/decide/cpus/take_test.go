package cpus

import (
	"errors"
	"math/bits"
	"math/rand/v2"
	"testing"

	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/topology"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestTake(t *testing.T) {
	two := shape{2, 1, 1, 4, 2}.build()    // CPUs 0-3,8-11 and 4-7,12-15
	four := shape{2, 2, 2, 2, 2}.build()   // 4 nodes of 8 CPUs, 4 cores and 2 caches
	large := shape{2, 2, 1, 32, 2}.build() // 4 nodes of 64 CPUs
	// Cores 0-1, 2-3, …
	neighbours := &topology.Machine{Nodes: two.Nodes[:1]}
	for id := range 16 {
		neighbours.CPUs = append(neighbours.CPUs, topology.CPU{ID: id, Core: id &^ 1, Socket: id / 8})
	}
	for _, c := range []struct {
		name string
		t    *topology.Machine
		free string
		n    int
		o    Options
		near []int
		want string
	}{
		{"nothing", two, "0-15", 0, Options{}, nil, ""},
		{"a core", two, "0-15", 2, Options{}, nil, "0,8"},
		{"a socket", two, "0-15", 8, Options{}, nil, "0-3,8-11"},
		{"a socket that is free", two, "1-15", 8, Options{}, nil, "4-7,12-15"},
		{"the fuller socket", two, "0-9,12-15", 2, Options{}, nil, "0,8"},
		{"the other fuller socket", two, "0-13", 2, Options{}, nil, "4,12"},
		{"a part of a core", two, "0-8,10-15", 1, Options{}, nil, "1"},
		{"near", two, "0-15", 2, Options{}, []int{1}, "4,12"},
		{"near, and the rest elsewhere", two, "0-5", 4, Options{}, []int{1}, "0-1,4-5"},
		{"full cores", two, "1-15", 2, Options{FullPCPUsOnly: true}, nil, "1,9"},
		{"across cores", two, "0-15", 3, Options{DistributeAcrossCores: true}, nil, "0-2"},
		{"across cores that are free first", two, "1-15", 4, Options{DistributeAcrossCores: true}, nil, "1-3,8"},
		{"across cores, half of them taken", two, "2-15", 2, Options{DistributeAcrossCores: true}, nil, "2-3"},
		{"across cores, and then the others", two, "2-3,8-15", 4, Options{DistributeAcrossCores: true}, []int{0}, "2-3,8-9"},
		{"across cores with neighbours", neighbours, "0-7", 4, Options{DistributeAcrossCores: true}, nil, "0,2,4,6"},
		{"across cores with neighbours, and then the others", neighbours, "0-7", 6, Options{DistributeAcrossCores: true}, nil,
			"0-4,6"},
		{"across cores with neighbours, some of them taken", neighbours, "1,3-7", 2, Options{DistributeAcrossCores: true}, nil, "4,6"},
		{"across cores, as many as there are", neighbours, "1-3,5", 3, Options{DistributeAcrossCores: true}, nil, "1-2,5"},
		{"across nodes", two, "0-15", 10, Options{DistributeAcrossNUMA: true}, nil, "0-2,4-6,8-9,12-13"},
		{"one node is enough", two, "0-15", 6, Options{DistributeAcrossNUMA: true}, nil, "0-2,8-10"},
		{"across nodes, of each of an affinity", large, "0-255", 176, Options{DistributeAcrossNUMA: true}, []int{0, 1, 2, 3},
			"0-21,32-53,64-85,96-117,128-149,160-181,192-213,224-245"},
		{"across nodes, without an affinity", large, "0-255", 176, Options{DistributeAcrossNUMA: true}, nil,
			"0-29,32-61,64-92,128-156,160-188,192-220"},
		{"across nodes, of a part of an affinity", two, "0-2,4-7,12-15", 4, Options{DistributeAcrossNUMA: true}, []int{0, 1},
			"0-1,4,12"},
		{"across nodes, one of an affinity has too few", two, "0,4-7,12-15", 6, Options{DistributeAcrossNUMA: true}, []int{0, 1},
			"4-6,12-14"},
		{"across nodes, and fewer CPUs than an affinity has", two, "0-15", 1, Options{DistributeAcrossNUMA: true}, []int{0, 1}, "0"},
		{"whole cores across nodes", two, "0-15", 10, Options{DistributeAcrossNUMA: true, FullPCPUsOnly: true}, nil,
			"0-2,4-5,8-10,12-13"},
		{"a cache", four, "0-31", 4, Options{AlignByCache: true}, nil, "0-1,16-17"},
		{"a cache that has enough", four, "1-31", 4, Options{AlignByCache: true}, nil, "2-3,18-19"},
		{"a socket of an affinity", four, "4-31", 12, Options{AlignBySocket: true}, []int{0}, "4-7,16-23"},
		{"a node of an affinity", four, "4-31", 4, Options{}, []int{0}, "16-19"},
	} {
		free := check.Value(cpuset.Parse(c.free))(t)
		got, err := Take(c.t, free, c.n, c.o, topology.NodesOf(c.near...))
		if err != nil || got.String() != c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, got, err, c.want)
		}
	}
}

func TestTakeErrors(t *testing.T) {
	two := shape{2, 1, 1, 4, 2}.build()
	for _, c := range []struct {
		name, free string
		n          int
		o          Options
		reason     string
		message    string
	}{
		{"too few", "0-3,99", 5, Options{}, "UnexpectedAdmissionError",
			"Allocate failed due to not enough cpus available to satisfy request: requested=5, available=4, which is unexpected"},
		{"odd", "0-15", 3, Options{FullPCPUsOnly: true}, "SMTAlignmentError",
			"SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"},
		{"no whole cores", "0-8", 4, Options{FullPCPUsOnly: true}, "SMTAlignmentError",
			"SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 2, requested CPUs = 4, CPUs per core = 2"},
	} {
		free := check.Value(cpuset.Parse(c.free))(t)
		got, err := Take(two, free, c.n, c.o, 0)
		if err == nil || !got.IsEmpty() {
			t.Errorf("%s: %s, %v", c.name, got, err)
		} else if r := Rejection(err); r.Reason != c.reason || r.Message != c.message {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

// TestTakeProperties: the promises of the docs, on machines and options that are drawn.
func TestTakeProperties(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	taken, refused := 0, 0
	for i := range 20_000 {
		m := drawMachine(r, true)
		o := drawOptions(r)
		free := some(r, m.All(), 40+r.IntN(61)).Union(cpuset.New(1000))
		n := r.IntN(len(m.CPUs) + 2)
		var near topology.Nodes
		for id := range m.Nodes {
			if r.IntN(4) == 0 {
				near |= topology.NodesOf(id)
			}
		}
		got, err := Take(m, free, n, o, near)
		bad := func(why string) {
			t.Fatalf("seed %d, case %d: %s: %d of %s near %v with %+v on %+v: %s, %v", seed, i, why, n, free, near.List(), o, m.CPUs,
				got, err)
		}
		usable := free.Intersection(m.All())
		if err != nil {
			refused++
			short, smt := (*ShortError)(nil), (*SMTAlignmentError)(nil)
			switch {
			case !got.IsEmpty():
				bad("an error, and CPUs")
			case errors.As(err, &short) && n <= usable.Size():
				bad("there are enough")
			case errors.As(err, &smt) && (!o.FullPCPUsOnly || n%perCore(m) == 0 && n <= wholeCores(m, usable, perCore(m)).Size()):
				bad("there are enough whole cores")
			case short == nil && smt == nil:
				bad("another error")
			}
			continue
		}
		taken++
		again, _ := Take(m, free, n, o, near)
		switch {
		case got.Size() != n:
			bad("not as many as asked for")
		case !got.IsSubsetOf(usable):
			bad("not free")
		case o.FullPCPUsOnly && wholeCores(m, got, 0).Size() != n:
			bad("parts of cores")
		case !again.Equals(got):
			bad("not the same again")
		}
		nearby := m.Where(func(c topology.CPU) bool { return near.Has(c.Node) && free.Contains(c.ID) })
		if near != 0 && !o.AlignBySocket && !o.FullPCPUsOnly && got.Intersection(nearby).Size() != min(n, nearby.Size()) {
			bad("not of the affinity")
		}
		if near == 0 && o.DistributeAcrossNUMA && !balanced(m, usable, got, n, o) {
			bad("not balanced")
		}
	}
	if taken < 5000 || refused < 500 {
		t.Errorf("%d taken, %d refused", taken, refused)
	}
}

// balanced says whether CPUs are in equal parts, but for one group, of as few nodes as possible, or of any number of
// nodes if no nodes have equal parts. It holds for groups of one, and for machines where all free cores are whole.
func balanced(m *topology.Machine, free, got cpuset.CPUSet, n int, o Options) bool {
	group := 1
	if o.FullPCPUsOnly {
		group = perCore(m)
	}
	if n == 0 || n%group != 0 || group > 1 && !wholeCores(m, free, group).Equals(free) {
		return true
	}
	have := count(members(m, free), node)
	least := 0
	for set := 1; set < 1<<len(m.Nodes); set++ {
		if k := bits.OnesCount(uint(set)); (least == 0 || k < least) && canShare(have, set, k, n, group) {
			least = k
		}
	}
	if least == 0 || least > n/group {
		return true // packed
	}
	parts := count(members(m, got), node)
	even := n / least / group * group
	for _, part := range parts {
		if part < even {
			return false
		}
	}
	return len(parts) == least
}

func canShare(have map[int]int, set, k, n, group int) bool {
	groups, even := 0, n/k/group*group
	for id := range 32 {
		if set>>id&1 == 1 {
			if have[id] < max(even, 1) {
				return false
			}
			groups += have[id] / group
		}
	}
	return groups*group >= n
}

// TestPackingAsBruteForce compares with the best of all sets of CPUs.
//
// On a machine where nothing is taken, the fewest sockets, nodes and shared cores are used. Where some CPUs are taken,
// the fewest cores are shared with others. There, sockets and nodes may be more than needed, as in the kubelet: parts
// with few free CPUs are used up first. An affinity, as of [Hints], keeps CPUs together.
func TestPackingAsBruteForce(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	cases, spread := 0, 0
	for i := 0; cases < 1500; i++ {
		m := drawMachine(r, false)
		if len(m.CPUs) > 12 {
			continue
		}
		cases++
		free := m.All()
		if r.IntN(2) == 0 {
			free = some(r, free, 70)
		}
		n := r.IntN(free.Size() + 1)
		got := check.Value(Take(m, free, n, Options{}, 0))(t)
		want, have := fewestOf(m, free, n), used(m, got)
		ok := have.cores == want.cores
		if free.Equals(m.All()) {
			ok = have == want
		} else if have != want {
			spread++
		}
		if !ok {
			t.Fatalf("seed %d, case %d: %d of %s on %+v: %s uses %+v, and %+v is possible", seed, i, n, free, m.CPUs, got, have, want)
		}
		near := topology.Nodes(0)
		for _, h := range Hints(m, free, cpuset.New(), n, Options{}) {
			if near == 0 || h.Nodes.Size() < near.Size() {
				near = h.Nodes
			}
		}
		if got, err := Take(m, free, n, Options{}, near); err != nil || used(m, got).nodes > want.nodes {
			t.Fatalf("seed %d, case %d: %d of %s near %v on %+v: %s, %v; %d nodes are enough", seed, i, n, free, near.List(),
				m.CPUs, got, err, want.nodes)
		}
	}
	t.Logf("more sockets or nodes than needed in %d of %d cases", spread, cases)
}

// usage is how many parts a set of CPUs uses; of the cores, only those that it shares with others.
type usage struct{ sockets, nodes, cores int }

func used(m *topology.Machine, set cpuset.CPUSet) usage {
	mine := members(m, set)
	return usage{len(count(mine, socket)), len(count(mine, node)), set.Size() - wholeCores(m, set, 0).Size()}
}

// fewestOf are the least figures of any n free CPUs, each on its own.
func fewestOf(m *topology.Machine, free cpuset.CPUSet, n int) usage {
	list := free.List()
	best := usage{99, 99, 99}
	subsets(list, n, func(ids []int) bool {
		u := used(m, cpuset.New(ids...))
		best = usage{min(best.sockets, u.sockets), min(best.nodes, u.nodes), min(best.cores, u.cores)}
		return true
	})
	return best
}

// TestDistributeEnds: nodes that are left with parts of groups do not keep it busy.
func TestDistributeEnds(t *testing.T) {
	m := shape{4, 1, 1, 4, 2}.build()
	free := m.All().Difference(cpuset.New(0, 1, 4, 8, 12)) // 6, 7, 7 and 7 CPUs
	got, err := Take(m, free, 22, Options{DistributeAcrossNUMA: true, FullPCPUsOnly: true}, 0)
	if err != nil || wholeCores(m, got, 0).Size() != 22 {
		t.Errorf("%s, %v", got, err)
	}
}

func BenchmarkTake(b *testing.B) {
	m := shape{8, 2, 2, 8, 2}.build() // 512 CPUs
	free := m.All().Difference(cpuset.New(0, 33, 70, 131, 200, 256))
	for name, o := range map[string]Options{
		"packed": {}, "cores": {FullPCPUsOnly: true}, "nodes": {DistributeAcrossNUMA: true}, "cache": {AlignByCache: true},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				check.Value(Take(m, free, 150, o, 0))(b)
			}
		})
	}
}
