package cpus

import (
	"math/rand/v2"

	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/topology"
)

// shape is a machine whose parts are alike.
type shape struct{ sockets, nodes, caches, cores, threads int } // nodes per socket, caches per node, cores per cache, …

// build makes a machine. CPUs are numbered as on most: first one of each core, then the second of each. If nodes is 0,
// all sockets are in one node.
func (s shape) build() *topology.Machine {
	t := &topology.Machine{}
	nodes := max(s.nodes, 1)
	cores := s.sockets * nodes * s.caches * s.cores
	for id := range cores * s.threads {
		first := id % cores
		c := topology.CPU{ID: id, Core: first, Cache: first / s.cores * s.cores, Node: first / (s.cores * s.caches)}
		c.Socket = c.Node / nodes
		if s.nodes == 0 {
			c.Node = 0
		}
		t.CPUs = append(t.CPUs, c)
	}
	n := s.sockets * s.nodes
	for id := range max(n, 1) {
		t.Nodes = append(t.Nodes, topology.Node{ID: id, Memory: 1 << 30})
	}
	return t
}

// without takes CPUs offline.
func without(t *topology.Machine, off cpuset.CPUSet) *topology.Machine {
	out := &topology.Machine{Nodes: t.Nodes}
	cores, caches := map[int]int{}, map[int]int{}
	for _, c := range t.CPUs {
		if off.Contains(c.ID) {
			continue
		}
		if _, ok := cores[c.Core]; !ok {
			cores[c.Core] = c.ID
		}
		if _, ok := caches[c.Cache]; !ok {
			caches[c.Cache] = c.ID
		}
		c.Core, c.Cache = cores[c.Core], caches[c.Cache]
		out.CPUs = append(out.CPUs, c)
	}
	return out
}

// some draws a part of a set.
func some(r *rand.Rand, of cpuset.CPUSet, percent int) cpuset.CPUSet {
	var ids []int
	for _, id := range of.List() {
		if r.IntN(100) < percent {
			ids = append(ids, id)
		}
	}
	return cpuset.New(ids...)
}

// drawMachine is a small machine; unevenly built in one of three cases.
func drawMachine(r *rand.Rand, uneven bool) *topology.Machine {
	t := shape{1 + r.IntN(3), r.IntN(3), 1 + r.IntN(2), 1 + r.IntN(3), 1 + r.IntN(2)}.build()
	if uneven && r.IntN(3) == 0 {
		off := some(r, t.All(), 25)
		if off.Size() < len(t.CPUs) {
			t = without(t, off)
		}
	}
	return t
}

func drawOptions(r *rand.Rand) Options {
	for {
		names := map[string]string{}
		for _, name := range []string{fullPCPUsOnly, distributeAcrossNUMA, alignBySocket, distributeAcrossCores, alignByCache} {
			if r.IntN(3) == 0 {
				names[name] = "true"
			}
		}
		if o, err := ParseOptions(names, true, true); err == nil {
			return o
		}
	}
}
