package admit

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Limits of a search, in sets of pods that it looks at: a check of one costs as much as the look at many.
const (
	searchSteps = 100_000
	checkSteps  = 1_000
)

// fewest splits pods that may be preempted into those that stay and those that go. What goes are as few as possible;
// of as many, those that request the least memory, then the least CPU, then the least of what is short; and of equal
// pods the last. check is the rejection of the pod that needs the room beside those that stay. It must accept it
// beside none.
//
// In groups so large that the search does not end in searchSteps, what goes may not be the smallest. With more than
// one resource short it may then also be more pods than needed together, but none of them goes without need.
func fewest(group []*v1.Pod, check func(kept []*v1.Pod) *Rejection) (kept, victims []*v1.Pod) {
	why := check(group)
	if why == nil {
		return group, nil
	}
	s := newSearch(group, why.Short, check)
	enough := s.enough()
	for n := s.least(); n <= len(enough); n++ {
		if s.best = nil; n == len(enough) {
			s.best = enough
		}
		if s.look(0, n); s.best != nil {
			break
		}
	}
	return s.split(s.best)
}

// search looks for the smallest set of victims of one size. Sets are indices of candidates.
type search struct {
	group []*v1.Pod
	// candidates are those of the group that any set may have, smallest first.
	candidates []candidate
	// need is what must become free of each resource that is short, without what chosen frees.
	need   []int64
	check  func(kept []*v1.Pod) *Rejection
	chosen []int
	best   []int
	steps  int
}

type candidate struct {
	pod *v1.Pod
	// frees is what its end frees of each resource that is short, most the maximum of it and of those behind it.
	frees, most []int64
	// size is what sets of as many pods are compared by, the first number first.
	size []int64
}

func newSearch(group []*v1.Pod, short v1.ResourceList, check func([]*v1.Pod) *Rejection) *search {
	s := &search{group: group, check: check, steps: searchSteps}
	names := slices.Sorted(maps.Keys(short))
	for _, name := range names {
		s.need = append(s.need, amount(name, short[name]))
	}
	for _, p := range slices.Backward(group) {
		requests := podspec.Requests(p)
		requests[v1.ResourcePods] = count(1)
		c := candidate{pod: p}
		for _, name := range names {
			c.frees = append(c.frees, amount(name, requests[name]))
		}
		c.size = []int64{
			amount(v1.ResourceMemory, requests[v1.ResourceMemory]), amount(v1.ResourceCPU, requests[v1.ResourceCPU]),
		}
		c.size = append(c.size, c.frees...)
		s.candidates = append(s.candidates, c)
	}
	slices.SortStableFunc(s.candidates, func(a, b candidate) int { return slices.Compare(a.size, b.size) })
	most := make([]int64, len(names))
	for i := range slices.Backward(s.candidates) {
		c := &s.candidates[i]
		for j, n := range c.frees {
			most[j] = max(most[j], n)
		}
		c.most = slices.Clone(most)
	}
	return s
}

// least is a number of victims that no set is below: of each resource, those that free the most of it.
func (s *search) least() int {
	least := 1
	for j, need := range s.need {
		frees := make([]int64, len(s.candidates))
		for i := range s.candidates {
			frees[i] = s.candidates[i].frees[j]
		}
		slices.Sort(frees)
		n := 0
		for ; n < len(frees) && need > 0; n++ {
			need -= frees[len(frees)-1-n]
		}
		least = max(least, n)
	}
	return least
}

// enough is a set without a needless victim, found without a search: those that free the least stay as long as there
// is room. If one resource is short, no set has fewer.
func (s *search) enough() []int {
	order := make([]int, len(s.candidates))
	share := make([]float64, len(s.candidates))
	for i := range s.candidates {
		order[i] = i
		for j, n := range s.candidates[i].frees {
			share[i] += min(float64(n)/float64(s.need[j]), 1)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(share[a], share[b]), b-a) })
	var kept []*v1.Pod
	var victims []int
	for _, i := range order {
		if with := append(slices.Clip(kept), s.candidates[i].pod); s.check(with) == nil {
			kept = with
		} else {
			victims = append(victims, i)
		}
	}
	return victims
}

// look adds n of the candidates from the one at from on to those chosen. best becomes the smallest set that is enough.
func (s *search) look(from, n int) {
	if s.steps--; s.steps < 0 {
		return
	}
	if n == 0 {
		if s.fits() {
			s.best = slices.Clone(s.chosen)
		}
		return
	}
	for i := from; i+n <= len(s.candidates); i++ {
		c := &s.candidates[i]
		if s.best != nil && !s.smaller(c, n) || !s.reachable(c, n) {
			return // nor with those behind it, which are larger and free no more
		}
		s.choose(i)
		s.look(i+1, n-1)
		s.drop()
	}
}

func (s *search) choose(i int) {
	s.chosen = append(s.chosen, i)
	for j, n := range s.candidates[i].frees {
		s.need[j] -= n
	}
}

func (s *search) drop() {
	last := len(s.chosen) - 1
	for j, n := range s.candidates[s.chosen[last]].frees {
		s.need[j] += n
	}
	s.chosen = s.chosen[:last]
}

// reachable says whether n candidates from c on may free what is needed.
func (s *search) reachable(c *candidate, n int) bool {
	for j, need := range s.need {
		if need > int64(n)*c.most[j] {
			return false
		}
	}
	return true
}

// smaller says whether the chosen and n candidates from c on may be smaller than the best.
func (s *search) smaller(c *candidate, n int) bool {
	for j := range c.size {
		size := int64(n) * c.size[j]
		for _, i := range s.chosen {
			size += s.candidates[i].size[j]
		}
		for _, i := range s.best {
			size -= s.candidates[i].size[j]
		}
		if size != 0 {
			return size < 0
		}
	}
	return false
}

func (s *search) fits() bool {
	for _, need := range s.need {
		if need > 0 {
			return false
		}
	}
	s.steps -= checkSteps
	kept, _ := s.split(s.chosen)
	return s.check(kept) == nil
}

// split lists the pods of the group that stay without a set of candidates, and those of the set, in the group's order.
func (s *search) split(set []int) (kept, victims []*v1.Pod) {
	for _, p := range s.group {
		if slices.ContainsFunc(set, func(i int) bool { return s.candidates[i].pod == p }) {
			victims = append(victims, p)
		} else {
			kept = append(kept, p)
		}
	}
	return kept, victims
}
