package topology

import (
	"slices"

	kubelet "k8s.io/kubelet/config/v1beta1"
)

// Merge is the best hint for all resources together, and whether the policy admits it. There is one list of hints for
// each resource, in any order. An empty list means [Never]. Hints without nodes in the result mean that everything may
// come from anywhere.
func (p *Policy) Merge(resources [][]Hint) (Hint, bool) {
	if !p.Aligns() {
		return Hint{}, true
	}
	single := p.OneNode()
	lists := make([][]Hint, 0, len(resources))
	for _, list := range resources {
		if len(list) == 0 {
			list = Never()
		}
		if single {
			list = slices.DeleteFunc(slices.Clone(list), func(h Hint) bool { return !h.Preferred || h.Nodes.Size() > 1 })
		}
		lists = append(lists, list)
	}
	best := p.best(lists)
	if single && best.Nodes == p.nodes {
		best.Nodes = 0
	}
	return best, best.Preferred || p.name == kubelet.BestEffortTopologyManagerPolicy
}

func (p *Policy) best(lists [][]Hint) Hint {
	if nodes, ok := p.preferred(lists); ok {
		return Hint{Nodes: nodes, Preferred: true}
	}
	want, best := needed(lists), Nodes(0)
	for _, nodes := range p.shared(lists, denseWidth) {
		if best == 0 || p.nearer(nodes, best, want) {
			best = nodes
		}
	}
	if best == 0 {
		best = p.nodes
	}
	return Hint{Nodes: best}
}

// preferred is the best of the preferred choices. All their hints with nodes have the same.
func (p *Policy) preferred(lists [][]Hint) (best Nodes, ok bool) {
	candidates := map[Nodes]int{} // how many lists prefer these nodes
	anywhere := 0                 // how many lists prefer no nodes
	perhaps := map[Nodes]int{}    // how many lists prefer no nodes and also these
	for _, list := range lists {
		free, seen := false, map[Nodes]bool{}
		for _, h := range list {
			free = free || h.Preferred && h.Nodes == 0
			if h.Preferred && h.Nodes != 0 {
				seen[h.Nodes] = true
			}
		}
		for nodes := range seen { // order-free: counts
			candidates[nodes]++
			if free {
				perhaps[nodes]++
			}
		}
		if free {
			anywhere++
		}
	}
	if anywhere == len(lists) && p.nodes != 0 {
		best, ok = p.nodes, true
	}
	for nodes, n := range candidates { // order-free: the minimum of a total order
		if n+anywhere-perhaps[nodes] < len(lists) || nodes&p.nodes == 0 {
			continue
		}
		if nodes &= p.nodes; !ok || p.fitter(nodes, best) {
			best, ok = nodes, true
		}
	}
	return best, ok
}

// needed is how many nodes the resource needs that needs the most.
func needed(lists [][]Hint) (want int) {
	for _, list := range lists {
		least := 0
		for _, h := range list {
			if n := h.Nodes.Size(); n > 0 && (least == 0 || n < least) {
				least = n
			}
		}
		want = max(want, least)
	}
	return want
}

// nearer says whether a choice that shares the nodes a is better than one that shares b, if neither is preferred.
func (p *Policy) nearer(a, b Nodes, want int) bool {
	far := func(n Nodes) int {
		if over := n.Size() - want; over > 0 {
			return maxNode + 1 + over
		}
		return want - n.Size()
	}
	if far(a) != far(b) {
		return far(a) < far(b)
	}
	return p.fitter(a, b)
}

// fitter is a total order of sets of nodes.
func (p *Policy) fitter(a, b Nodes) bool {
	if a.Size() != b.Size() {
		return a.Size() < b.Size()
	}
	if p.closest {
		if da, db := p.apart(a), p.apart(b); da != db {
			return da < db
		}
	}
	return a < b
}

// apart is the sum of all distances between nodes of a set. For sets of one size, it orders as the average does.
func (p *Policy) apart(n Nodes) (sum int) {
	list := n.List()
	for _, a := range list {
		for _, b := range list {
			sum += int(p.distance[a][b])
		}
	}
	return sum
}
