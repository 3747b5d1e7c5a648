package cpus

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/topology"
)

// Place chooses the CPUs of a pod's containers that are entitled to their own, and lets other providers choose what
// they give. What containers have in the state they keep; with [Config.Resizes] as many of these CPUs as the pod asks
// for, and more if it asks for more. The state is not changed. A pod that has no CPUs gets an empty map. runs: the pod
// runs already, so it is never rejected. It keeps what it has: where the topology policy would not put it, with fewer
// than it asks for, or with none.
func (r *Rules) Place(
	s State, pod *v1.Pod, runs bool, others ...topology.Provider,
) (map[string]cpuset.CPUSet, *admit.Rejection) {
	p := placing{Rules: r, pod: pod, runs: runs}
	return p.place(s, others)
}

// placing is one pod that gets its CPUs, container by container: a topology.Provider.
type placing struct {
	*Rules
	pod *v1.Pod
	// runs: what the pod has already is enough.
	runs bool
	// grows: the pod runs and asks for more. Only what it gets beyond what it has must be where the policy wants it.
	grows bool
	// free are CPUs that no container has, and held those that containers of the pod have in the state. What is in held
	// and not in own any more is not free: the container still runs on it.
	free cpuset.CPUSet
	held map[string]cpuset.CPUSet
	own  map[string]cpuset.CPUSet
	// short is the container that could not be given CPUs, and err why.
	short *v1.Container
	err   error
}

func (p *placing) place(s State, others []topology.Provider) (map[string]cpuset.CPUSet, *admit.Rejection) {
	providers := others
	if p.static {
		p.free, providers = p.Allocatable().Difference(s.exclusive()), append(slices.Clone(others), p)
	}
	p.held, p.own = s[p.pod.UID], map[string]cpuset.CPUSet{}
	for name, had := range p.held { // order-free: a copy
		p.own[name] = had
	}
	for _, group := range topology.Groups(p.scope, &p.pod.Spec) {
		best, ok := p.merge(group, providers)
		switch {
		case ok:
		case p.runs:
			best = topology.Hint{}
		default:
			return nil, topology.Rejection(p.scope, false)
		}
		for _, c := range group {
			for _, from := range providers {
				if why := from.Take(c, best); why != nil && !p.runs {
					return nil, why
				}
			}
		}
	}
	return p.own, nil
}

// merge is where a group of containers gets what it needs, and whether the topology policy admits that.
func (r *Rules) merge(group []*v1.Container, providers []topology.Provider) (topology.Hint, bool) {
	var hints [][]topology.Hint
	if r.policy.Aligns() { // there may be very many
		for _, from := range providers {
			hints = append(hints, from.Hints(group)...)
		}
	}
	return r.policy.Merge(hints)
}

// Hints implements topology.Provider. CPUs that are kept bind the others to their nodes.
func (p *placing) Hints(group []*v1.Container) [][]topology.Hint {
	n, reusable := 0, p.reusable()
	if len(group) == 1 {
		n = Exclusive(p.pod, group[0], false)
	} else {
		n = ExclusiveOfPod(p.pod, false)
	}
	switch had := p.had(group); {
	case n == 0:
		return nil
	case !had.IsEmpty() && (p.runs || p.grows && n <= had.Size()):
		return [][]topology.Hint{topology.Any()}
	case had.Size() == n || p.resizes && n < had.Size():
		return [][]topology.Hint{Hints(p.machine, had, cpuset.New(), n, p.options)}
	case p.resizes:
		reusable = reusable.Union(had)
	}
	return [][]topology.Hint{Hints(p.machine, p.free.Difference(reusable), reusable, n, p.options)}
}

func (p *placing) had(group []*v1.Container) cpuset.CPUSet {
	out := cpuset.New()
	for _, c := range group {
		out = out.Union(p.own[c.Name])
	}
	return out
}

// Take implements topology.Provider.
func (p *placing) Take(c *v1.Container, affinity topology.Hint) *admit.Rejection {
	n := Exclusive(p.pod, c, false)
	had, has := p.own[c.Name]
	switch {
	case had.Size() == n || has && !p.resizes:
		return nil
	case n == 0:
		delete(p.own, c.Name)
		return nil
	}
	var got cpuset.CPUSet
	var err error
	if n < had.Size() {
		got, err = Take(p.machine, had, n, p.options, affinity.Nodes)
	} else {
		got, err = p.grow(c, had, n, affinity.Nodes)
	}
	if err != nil {
		p.short, p.err = c, err
		why := Rejection(err)
		why.Of = v1.ResourceCPU
		return why
	}
	p.own[c.Name], p.free = got, p.free.Difference(got)
	return nil
}

// grow adds CPUs to those that a container has, first of the NUMA nodes of these. An init container gets some of those
// that its pod would get without it, so that containers after it have them again, and whole cores.
func (p *placing) grow(c *v1.Container, had cpuset.CPUSet, n int, near topology.Nodes) (cpuset.CPUSet, error) {
	again := p.reusable().Difference(had)
	from, more, room := p.free.Union(again), n-had.Size(), p.room()
	_, kind := podspec.Find(&p.pod.Spec, c.Name)
	if all := room + again.Size(); kind == podspec.Init && all > more {
		if set, err := p.take(from, again, all, room, near); err == nil {
			from, again = set, again.Intersection(set)
		}
	}
	got, err := p.take(from, again, more, room, near)
	if err != nil || had.IsEmpty() {
		return got, err
	}
	var nodes topology.Nodes
	for _, cpu := range p.machine.CPUs {
		if had.Contains(cpu.ID) {
			nodes |= topology.NodesOf(cpu.Node)
		}
	}
	here := from.Intersection(p.machine.Where(func(c topology.CPU) bool { return nodes.Has(c.Node) }))
	first, parts := p.take(here, again.Intersection(here), min(here.Size(), more), room, near)
	room = max(0, room-first.Difference(again).Size())
	rest, short := p.take(from.Difference(first), again.Difference(first), more-first.Size(), room, near)
	if parts == nil && short == nil { // else here are parts of cores
		got = first.Union(rest)
	}
	return had.Union(got), nil
}

// take is [Take] that uses CPUs again if there would otherwise be more than room others, as far as no CPU is
// farther from the affinity for that.
func (p *placing) take(from, again cpuset.CPUSet, n, room int, near topology.Nodes) (cpuset.CPUSet, error) {
	got, err := Take(p.machine, from, n, p.options, near)
	if err != nil || got.Difference(again).Size() <= room {
		return got, err
	}
	here := Near(p.machine, p.options, near)
	elsewhere := max(0, n-from.Intersection(here).Size())
	k := min(n-room, again.Size(), again.Intersection(here).Size()+elsewhere)
	first, parts := Take(p.machine, again, k, p.options, near)
	rest, short := Take(p.machine, from.Difference(first), n-k, p.options, near)
	if parts == nil && short == nil {
		got = first.Union(rest)
	}
	return got, nil
}

// room is how many CPUs the pod may get that it does not have: the scheduler has counted no more for it.
func (p *placing) room() int {
	return max(0, ExclusiveOfPod(p.pod, false)-State{p.pod.UID: p.own}.exclusive().Size())
}

// reusable are the CPUs of init containers that another container may have too: none on which a container may run at
// the same time.
func (p *placing) reusable() cpuset.CPUSet {
	out := Reusable(&p.pod.Spec, p.own)
	for c, kind := range podspec.Lasting(&p.pod.Spec) {
		if kind != podspec.Init {
			out = out.Difference(p.held[c.Name])
		}
	}
	return out
}
