package memory

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/topology"
)

// Placing chooses memory for the containers of one pod: a [topology.Provider].
type Placing struct {
	*Rules
	pod *v1.Pod
	// runs: the pod runs already, so it stays where it is.
	runs bool
	used map[int]*Used
	own  map[string][]Block
}

// Place begins to choose. runs: the pod runs already, and is not refused because its memory is not where it should be.
// The state is not changed. It must fit the machine (see [Rules.Count]).
func (r *Rules) Place(s State, pod *v1.Pod, runs bool) *Placing {
	used, err := r.Count(s)
	if err != nil {
		panic("memory: a state that was not checked: " + err.Error())
	}
	p := &Placing{Rules: r, pod: pod, runs: runs, used: used, own: maps.Clone(s[pod.UID])}
	if p.own == nil {
		p.own = map[string][]Block{}
	}
	return p
}

// Own is what the containers of the pod have, by name.
func (p *Placing) Own() map[string][]Block { return p.own }

// Needs is what a container asks for of its own, by kind, in bytes. A container has memory of its own if its pod is
// Guaranteed. One with resources of its own has none, as with a kubelet whose feature gate PodLevelResourceManagers is
// off.
func Needs(pod *v1.Pod, c *v1.Container) map[v1.ResourceName]uint64 {
	out := map[v1.ResourceName]uint64{}
	if podspec.Class(pod) != v1.PodQOSGuaranteed || podspec.OwnResources(pod) {
		return out
	}
	for name, q := range c.Resources.Requests { // order-free: a map again
		if Is(name) && q.Value() > 0 {
			out[name] = uint64(q.Value())
		}
	}
	return out
}

// needs is what a group of containers needs at most at any time (KEP-753).
func (p *Placing) needs(group []*v1.Container) map[v1.ResourceName]uint64 {
	if len(group) == 1 {
		return Needs(p.pod, group[0])
	}
	running, peak := map[v1.ResourceName]uint64{}, map[v1.ResourceName]uint64{}
	for c, kind := range podspec.Lasting(&p.pod.Spec) {
		for name, n := range Needs(p.pod, c) { // order-free: each name for itself
			if kind == podspec.Init {
				peak[name] = max(peak[name], running[name]+n)
			} else {
				running[name] += n
			}
		}
	}
	for name, n := range running { // order-free: each name for itself
		peak[name] = max(peak[name], n)
	}
	return peak
}

// Hints implements topology.Provider. All kinds of memory come from the same nodes.
func (p *Placing) Hints(group []*v1.Container) (out [][]topology.Hint) {
	needs := p.needs(group)
	if len(needs) == 0 {
		return nil
	}
	hints := p.hints(needs, group)
	for range needs { // order-free: all the same
		out = append(out, hints)
	}
	return out
}

func (p *Placing) hints(needs map[v1.ResourceName]uint64, group []*v1.Container) []topology.Hint {
	for _, c := range group {
		if had := p.own[c.Name]; len(had) > 0 {
			if p.runs {
				return topology.Any()
			}
			return []topology.Hint{{Nodes: NodesOf(had), Preferred: true}}
		}
	}
	if hints := p.choices(needs); len(hints) > 0 {
		return hints
	}
	return topology.Any() // Take says what is lacking, as with a kubelet
}

// choices are the sets of nodes that have what is needed, the better ones first. Preferred are those of as few nodes as
// would have it if nothing was taken.
func (p *Placing) choices(needs map[v1.ResourceName]uint64) (out []topology.Hint) {
	least := 0
	for _, set := range p.sets {
		if !p.could(set, needs) {
			continue
		}
		if least == 0 {
			least = set.Size()
		}
		if p.free(set) && p.has(set, needs) {
			out = append(out, topology.Hint{Nodes: set, Preferred: set.Size() == least})
		}
	}
	return out
}

// could says whether some nodes would have what is needed if nothing was taken.
func (p *Placing) could(set topology.Nodes, needs map[v1.ResourceName]uint64) bool {
	for name, n := range needs { // order-free: all must be
		sum := uint64(0)
		for _, id := range set.List() {
			sum += p.banks[id][name].Allocatable
		}
		if sum < n {
			return false
		}
	}
	return true
}

// free says whether some nodes may give memory together.
func (p *Placing) free(set topology.Nodes) bool {
	for _, id := range set.List() {
		if u := p.used[id]; u == nil || u.Assignments > 0 && u.Group != set {
			return false
		}
	}
	return true
}

// has says whether some nodes have what is needed now, with what init containers of this pod leave there.
func (p *Placing) has(set topology.Nodes, needs map[v1.ResourceName]uint64) bool {
	for name, n := range needs { // order-free: all must be
		sum := p.left(set, name)
		for _, id := range set.List() {
			sum += p.banks[id][name].Allocatable - p.used[id].Reserved[name]
		}
		if sum < n {
			return false
		}
	}
	return true
}

// left is what the next container may use again of what init containers of its pod have.
func (p *Placing) left(set topology.Nodes, name v1.ResourceName) (n uint64) {
	for c, kind := range podspec.Lasting(&p.pod.Spec) {
		if kind != podspec.Init {
			continue
		}
		for _, b := range p.own[c.Name] {
			if b.Nodes == set && b.Type == name {
				n += b.Size
			}
		}
	}
	return n
}

// Take implements topology.Provider.
func (p *Placing) Take(c *v1.Container, affinity topology.Hint) *admit.Rejection {
	needs := Needs(p.pod, c)
	if len(needs) == 0 || len(p.own[c.Name]) > 0 {
		return nil
	}
	set, err := p.choose(needs, affinity)
	if err != nil {
		why := admit.Unexpected(fmt.Errorf("[memorymanager] container %q: %w", c.Name, err))
		why.Of = v1.ResourceMemory
		return why
	}
	var blocks []Block
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		n := needs[name]
		again := p.reuse(set, name, n)
		if err := p.take(p.used, Block{Nodes: set, Type: name, Size: n - again}); err != nil {
			return admit.Unexpected(err) // it was chosen because it has enough
		}
		blocks = append(blocks, Block{Nodes: set, Type: name, Size: n})
	}
	p.own[c.Name] = blocks
	return nil
}

// choose are the nodes of one container: those of the affinity, or more if they have too little. With an affinity that
// is not preferred, any will do.
func (p *Placing) choose(needs map[v1.ResourceName]uint64, affinity topology.Hint) (topology.Nodes, error) {
	restricted := p.restricted && !p.runs
	if set := affinity.Nodes; set != 0 && (affinity.Preferred || !restricted) && p.free(set) && p.has(set, needs) {
		return set, nil
	}
	hints := p.choices(needs)
	for _, h := range hints {
		if affinity.Nodes&^h.Nodes == 0 && (h.Preferred || !affinity.Preferred && !restricted) {
			return h.Nodes, nil
		}
	}
	switch {
	case len(hints) == 0:
		return 0, errors.New("no NUMA nodes have enough memory that others do not share")
	case affinity.Preferred || restricted:
		return 0, fmt.Errorf("the NUMA nodes that it prefers have too little memory left; %s have enough",
			Mems(hints[0].Nodes))
	}
	return hints[0].Nodes, nil
}

// reuse takes up to n bytes from init containers of the pod. The result is how many.
func (p *Placing) reuse(set topology.Nodes, name v1.ResourceName, n uint64) (got uint64) {
	for c, kind := range podspec.Lasting(&p.pod.Spec) {
		for i, b := range p.own[c.Name] {
			if kind == podspec.Init && b.Nodes == set && b.Type == name && got < n {
				part := min(b.Size, n-got)
				p.own[c.Name] = slices.Clone(p.own[c.Name])
				p.own[c.Name][i].Size -= part
				got += part
			}
		}
	}
	return got
}
