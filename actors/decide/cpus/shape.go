package cpus

import (
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/topology"
)

// WholeCores says whether no CPU outside of a set shares a core with one in it.
func WholeCores(t *topology.Machine, set cpuset.CPUSet) bool {
	return wholeCores(t, set, 0).Equals(set)
}

// OneCache says whether the CPUs of a set share their last level cache ([topology.CPU.Cache]).
func OneCache(t *topology.Machine, set cpuset.CPUSet) bool {
	return len(count(members(t, set), cache)) <= 1
}

// PerNode is how many CPUs of a set each NUMA node has, by the nodes' IDs. Nodes that have CPUs, but none of the set,
// are in it too.
func PerNode(t *topology.Machine, set cpuset.CPUSet) map[int]int {
	in, out := count(members(t, set), node), map[int]int{}
	for id := range count(t.CPUs, node) { // order-free: a map again
		out[id] = in[id]
	}
	return out
}
