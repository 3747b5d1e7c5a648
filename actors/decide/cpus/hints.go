package cpus

import (
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/topology"
)

// Hints are the sets of NUMA nodes that n CPUs could come from: all that have enough of the free and reusable CPUs, and
// all nodes of the reusable ones. Preferred are the sets of the least size that could have n CPUs on this machine, were
// all of them free; with align-by-socket also those of as few sockets as such a set needs. Without a request there is
// no preference.
//
// Free are the CPUs as for [Take], without the reusable ones. If a container has its CPUs already, these are free, and
// nothing is reusable: then the hints are the same as before. There is a hint for nearly each set of nodes;
// [topology.New] limits their number.
func Hints(t *topology.Machine, free, reusable cpuset.CPUSet, n int, o Options) []topology.Hint {
	if n <= 0 {
		return topology.Any()
	}
	var ids []int
	for _, n := range t.Nodes {
		ids = append(ids, n.ID)
	}
	all, usable := count(t.CPUs, node), count(members(t, free.Union(reusable)), node)
	bound := topology.Nodes(0)
	for id := range count(members(t, reusable), node) { // order-free: a set
		bound |= topology.NodesOf(id)
	}
	least, out := len(all), []topology.Hint{}
	for k := 1; k <= len(all); k++ {
		subsets(withCPUs(ids, all), k, func(nodes []int) bool {
			set := topology.NodesOf(nodes...)
			could, can := 0, 0
			for _, id := range nodes {
				could, can = could+all[id], can+usable[id]
			}
			if could >= n {
				least = min(least, k)
			}
			if can >= n && bound&^set == 0 {
				out = append(out, topology.Hint{Nodes: set})
			}
			return true
		})
	}
	if len(out) == 0 {
		return topology.Never()
	}
	sockets := fewest(t, least, len(all))
	for i, h := range out {
		out[i].Preferred = h.Nodes.Size() == least || o.AlignBySocket && sockets > 0 && spans(t, h.Nodes) == sockets
	}
	return out
}

func withCPUs(ids []int, cpus map[int]int) (out []int) {
	for _, id := range ids {
		if cpus[id] > 0 {
			out = append(out, id)
		}
	}
	return out
}

// fewest is how many sockets a number of nodes needs; 0 if sockets are smaller than nodes.
func fewest(t *topology.Machine, nodes, of int) int {
	per := of / max(len(count(t.CPUs, socket)), 1)
	if per == 0 {
		return 0
	}
	return (nodes + per - 1) / per
}

// spans is in how many sockets the CPUs of some nodes are.
func spans(t *topology.Machine, nodes topology.Nodes) int {
	in := map[int]bool{}
	for _, c := range t.CPUs {
		if nodes.Has(c.Node) {
			in[c.Socket] = true
		}
	}
	return len(in)
}
