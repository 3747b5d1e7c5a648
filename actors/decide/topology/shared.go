package topology

import "slices"

// denseWidth is up to how many nodes there is a table with an entry for each set of nodes.
const denseWidth = 12

// shared are the sets of nodes that the hints of any choice share, without the empty set. They are in ascending order.
//
// The resources are added one by one. Only nodes that some hint names are distinguished: all others are shared, or not,
// together, and stand behind one bit. For up to width bits, the cost per resource is width·2^width, whatever the number
// of hints. Above, where few hints can be expected, it is the number of hints times that of sets so far.
func (p *Policy) shared(lists [][]Hint, width int) (out []Nodes) {
	var used Nodes
	for _, list := range lists {
		for _, h := range list {
			used |= h.Nodes & p.nodes
		}
	}
	others := p.nodes &^ used
	if others != 0 {
		used |= others & -others // the lowest stands for all
	}
	all := p.nodes.compress(used)
	sets := []uint{all}
	for _, list := range lists {
		var options []uint
		for _, h := range list {
			if h.Nodes == 0 {
				options = append(options, all)
			} else {
				options = append(options, (h.Nodes & p.nodes).compress(used))
			}
		}
		slices.Sort(options)
		options = slices.Compact(options)
		if len(options) == 1 && options[0] == all {
			continue
		}
		if n := used.Size(); n <= width {
			sets = denseAnd(sets, options, n)
		} else {
			sets = sparseAnd(sets, options)
		}
	}
	for _, set := range sets {
		if nodes := expand(set, used); nodes&others != 0 {
			out = append(out, nodes|others)
		} else if nodes != 0 {
			out = append(out, nodes)
		}
	}
	slices.Sort(out)
	return out
}

// sparseAnd are all intersections of a set of a and one of b, without the empty one.
func sparseAnd(a, b []uint) (out []uint) {
	seen := map[uint]bool{}
	for _, x := range a {
		for _, y := range b {
			if z := x & y; z != 0 && !seen[z] {
				seen[z] = true
				out = append(out, z)
			}
		}
	}
	return out
}

// denseAnd is sparseAnd for sets of n bits, by a convolution: in how many ways a set is a subset of an intersection is
// the product of how many sets of a and of b contain it. Inclusion and exclusion make of that in how many ways it is an
// intersection.
func denseAnd(a, b []uint, n int) (out []uint) {
	ways, other := supersets(a, n), supersets(b, n)
	for i := range ways {
		ways[i] *= other[i]
	}
	for bit := range n {
		for set := range ways {
			if set>>bit&1 == 0 {
				ways[set] -= ways[set|1<<bit]
			}
		}
	}
	for set := 1; set < len(ways); set++ {
		if ways[set] > 0 {
			out = append(out, uint(set))
		}
	}
	return out
}

// supersets counts for each set of n bits how many of some sets contain it.
func supersets(sets []uint, n int) []int {
	count := make([]int, 1<<n)
	for _, set := range sets {
		count[set]++
	}
	for bit := range n {
		for set := range count {
			if set>>bit&1 == 0 {
				count[set] += count[set|1<<bit]
			}
		}
	}
	return count
}
