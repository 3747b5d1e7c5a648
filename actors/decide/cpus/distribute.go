package cpus

import (
	"slices"

	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/topology"
)

// maxTries limits how many ways to balance CPUs are compared. 8 nodes need 3⁸ at most.
const maxTries = 1 << 17

// balance is a way to take CPUs of some nodes: as many groups from each, and one group more from some, in turns.
type balance struct {
	even        int
	nodes, more []int
	// score is the sum of the squares of what is left on all nodes. The less, the more even: the sum itself is the same.
	score int
}

// distribute takes CPUs in equal parts of as few nodes as possible (KEP-2902), in groups of a size that what is needed
// is a multiple of. It says false, and takes nothing, if that cannot be. Fewer than least nodes are used only if more
// cannot be.
//
//	for least, least + 1 … nodes, then for 1, 2, 3 …
//	  each set of so many nodes that can give an equal part, in groups
//	    each subset of it that can give what does not divide, in turns
//	  take the one that leaves all nodes of the machine the most alike
func (a *taker) distribute(group, least int) bool {
	var ids []int
	for _, part := range a.order(a.nodes) {
		ids = append(ids, part[0].Node)
	}
	free, tries := count(a.free, node), maxTries
	for k := least; k <= min(len(ids), a.need/group) && tries > 0; k++ {
		var best *balance
		subsets(ids, k, func(nodes []int) bool {
			if b := a.evenly(free, nodes, group, &tries); b != nil && (best == nil || b.score < best.score) {
				best = b
			}
			return tries > 0
		})
		if best != nil {
			a.follow(*best, group)
			return true
		}
	}
	return least > 1 && a.distribute(group, 1)
}

// evenly is the best way to take CPUs of all of some nodes, nil if there is none.
func (a *taker) evenly(free map[int]int, nodes []int, group int, tries *int) *balance {
	*tries--
	groups := 0
	for _, id := range nodes {
		groups += free[id] / group
	}
	even := a.need / len(nodes) / group * group
	short := slices.ContainsFunc(nodes, func(id int) bool { return free[id] < even })
	if short || groups*group < a.need {
		return nil
	}
	rest := a.need - even*len(nodes)
	left := map[int]int{}
	for id, n := range free { // order-free: by key
		left[id] = n
		if slices.Contains(nodes, id) {
			left[id] -= even
		}
	}
	if rest == 0 {
		return &balance{even: even, nodes: slices.Clone(nodes), score: squares(left, nil)}
	}
	able := slices.DeleteFunc(slices.Clone(nodes), func(id int) bool { return left[id] < group })
	var best *balance
	for k := len(able); k >= 1; k-- {
		subsets(able, k, func(more []int) bool {
			*tries--
			if given, ok := inTurns(left, more, rest, group); ok {
				if score := squares(left, given); best == nil || score < best.score {
					best = &balance{even: even, nodes: slices.Clone(nodes), more: slices.Clone(more), score: score}
				}
			}
			return *tries > 0
		})
	}
	return best
}

// inTurns is how much each of some nodes gives, group by group, until the rest is taken.
func inTurns(left map[int]int, nodes []int, rest, group int) (given map[int]int, ok bool) {
	given = map[int]int{}
	for again := true; again && rest > 0; {
		again = false
		for _, id := range nodes {
			if rest > 0 && left[id]-given[id] >= group {
				given[id] += group
				rest -= group
				again = true
			}
		}
	}
	return given, rest == 0
}

func squares(left, given map[int]int) (sum int) {
	for id, n := range left { // order-free: a sum
		sum += (n - given[id]) * (n - given[id])
	}
	return sum
}

// follow takes CPUs in a way that was found.
func (a *taker) follow(b balance, group int) {
	for _, id := range b.nodes {
		a.takeOf(id, b.even)
	}
	given, _ := inTurns(count(a.free, node), b.more, a.need, group)
	for _, id := range b.more {
		for range given[id] / group {
			a.takeOf(id, group)
		}
	}
}

// takeOf packs n CPUs of one node.
func (a *taker) takeOf(id, n int) {
	var free []int
	for _, c := range a.free {
		if c.Node == id {
			free = append(free, c.ID)
		}
	}
	inner := newTaker(a.t, cpuset.New(free...), n, a.o)
	inner.pack()
	var got []topology.CPU
	for _, c := range a.free {
		if slices.Contains(inner.got, c.ID) {
			got = append(got, c)
		}
	}
	a.take(got)
}

// subsets yields all subsets of a size, in the order of the list, until told to stop. The slice is reused.
func subsets(of []int, size int, yield func([]int) bool) {
	chosen := make([]int, 0, size)
	var add func(from int) bool
	add = func(from int) bool {
		if len(chosen) == size {
			return yield(chosen)
		}
		for i := from; i <= len(of)-(size-len(chosen)); i++ {
			chosen = append(chosen, of[i])
			more := add(i + 1)
			chosen = chosen[:len(chosen)-1]
			if !more {
				return false
			}
		}
		return true
	}
	add(0)
}
