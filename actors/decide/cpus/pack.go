package cpus

import (
	"cmp"
	"slices"

	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/topology"
)

// level is a kind of part of a machine: it names the part that a CPU is in.
type level func(topology.CPU) int

func socket(c topology.CPU) int { return c.Socket }
func node(c topology.CPU) int   { return c.Node }
func cache(c topology.CPU) int  { return c.Cache }
func core(c topology.CPU) int   { return c.Core }

// count is how many CPUs each part has.
func count(cpus []topology.CPU, of level) map[int]int {
	out := map[int]int{}
	for _, c := range cpus {
		out[of(c)]++
	}
	return out
}

// members are the CPUs of a set, in ascending order.
func members(t *topology.Machine, set cpuset.CPUSet) (out []topology.CPU) {
	for _, c := range t.CPUs {
		if set.Contains(c.ID) {
			out = append(out, c)
		}
	}
	return out
}

// taker moves CPUs from free to got until nothing more is needed.
//
// Invariant: free and got are disjoint, and len(got) + need is what was asked for.
type taker struct {
	t    *topology.Machine
	o    Options
	free []topology.CPU // in ascending order
	need int
	got  []int
	// sockets and nodes are how one descends to parts of a kind; nodes in sockets, or sockets in nodes if those are not
	// smaller. cores are below both.
	sockets, nodes, cores []level
}

func newTaker(t *topology.Machine, free cpuset.CPUSet, n int, o Options) *taker {
	a := &taker{t: t, o: o, free: members(t, free), need: max(n, 0)}
	if len(count(t.CPUs, socket)) >= len(count(t.CPUs, node)) {
		a.nodes, a.sockets, a.cores = []level{node}, []level{node, socket}, []level{node, socket, core}
	} else {
		a.sockets, a.nodes, a.cores = []level{socket}, []level{socket, node}, []level{socket, node, core}
	}
	return a
}

func (a *taker) take(cpus []topology.CPU) {
	gone := map[int]bool{}
	for _, c := range cpus {
		gone[c.ID] = true
		a.got = append(a.got, c.ID)
	}
	a.free = slices.DeleteFunc(slices.Clone(a.free), func(c topology.CPU) bool { return gone[c.ID] })
	a.need -= len(cpus)
}

// order are the free CPUs of each part of the last level of a path. At each level, parts with fewer free CPUs come
// first, then those with lower numbers.
func (a *taker) order(path []level) (out [][]topology.CPU) {
	counts := make([]map[int]int, len(path))
	for i, of := range path {
		counts[i] = count(a.free, of)
	}
	sorted := slices.Clone(a.free)
	slices.SortFunc(sorted, func(x, y topology.CPU) int {
		for i, of := range path {
			px, py := of(x), of(y)
			if d := cmp.Or(cmp.Compare(counts[i][px], counts[i][py]), cmp.Compare(px, py)); d != 0 {
				return d
			}
		}
		return cmp.Compare(x.ID, y.ID)
	})
	last := path[len(path)-1]
	for i, c := range sorted {
		if i == 0 || last(sorted[i-1]) != last(c) {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], c)
	}
	return out
}

// pack takes all that is needed from as few parts as it finds. There must be enough free CPUs.
func (a *taker) pack() {
	large, small := a.sockets, a.nodes
	if len(a.nodes) == 1 {
		large, small = a.nodes, a.sockets
	}
	a.whole(large)
	a.whole(small)
	if a.o.AlignByCache {
		path := append(slices.Clone(a.nodes), cache)
		a.whole(path)
		for _, free := range a.order(path) {
			a.partOf(free)
		}
	}
	single := a.sockets
	if !a.o.DistributeAcrossCores {
		a.whole(a.cores)
		single = a.cores
	}
	for _, part := range a.order(single) {
		if a.o.DistributeAcrossCores {
			a.spread(part)
		}
		a.take(part[:min(a.need, len(part))])
	}
}

// spread sorts the free CPUs of a part: one of each core in turns, first of cores of which the fewest are taken.
func (a *taker) spread(part []topology.CPU) {
	taken, turns, turn := count(a.t.CPUs, core), map[int]int{}, map[int]int{}
	for id, n := range count(a.free, core) { // order-free: by key
		taken[id] -= n
	}
	for _, c := range part {
		turn[c.ID] = turns[c.Core]
		turns[c.Core]++
	}
	slices.SortStableFunc(part, func(x, y topology.CPU) int {
		return cmp.Or(cmp.Compare(turn[x.ID], turn[y.ID]), cmp.Compare(taken[x.Core], taken[y.Core]))
	})
}

// whole takes parts of the last level of a path that are free as a whole.
func (a *taker) whole(path []level) {
	last := path[len(path)-1]
	sizes := count(a.t.CPUs, last)
	for _, part := range a.order(path) {
		if len(part) == sizes[last(part[0])] && len(part) <= a.need {
			a.take(part)
		}
	}
}

// partOf takes all that is needed from the first cores of one cache, or nothing.
func (a *taker) partOf(free []topology.CPU) {
	threads := perCore(a.t)
	cores := map[int]bool{}
	for _, c := range free {
		cores[c.Core] = true
	}
	first := make([]int, 0, len(cores))
	for id := range cores { // order-free: sorted below
		first = append(first, id)
	}
	slices.Sort(first)
	first = first[:min(len(first), (a.need+threads-1)/threads)]
	var out []topology.CPU
	for _, c := range free {
		if slices.Contains(first, c.Core) {
			out = append(out, c)
		}
	}
	// An odd number leaves one CPU of the last core.
	if a.need%2 != 0 && threads > 1 && len(out) > a.need {
		slices.SortFunc(out, func(x, y topology.CPU) int { return cmp.Compare(x.ID, y.ID) })
		out = out[:len(out)-1]
	}
	if a.need > 0 && len(out) == a.need {
		a.take(out)
	}
}
