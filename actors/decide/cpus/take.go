package cpus

import (
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/topology"
)

// Take chooses n of the free CPUs, or none and an error. Free are all CPUs that the container may get: those that no
// container has alone, without those of the system, and those that [Reusable] names. CPUs of the affinity are taken
// first; others follow only if these are too few. No affinity is one to all nodes. CPUs that the machine does not have
// are not taken.
//
// The error is a [*ShortError], or with full-pcpus-only a [*SMTAlignmentError]. See [Rejection].
func Take(t *topology.Machine, free cpuset.CPUSet, n int, o Options, affinity topology.Nodes) (cpuset.CPUSet, error) {
	if !o.FullPCPUsOnly {
		return aligned(t, free, n, o, affinity)
	}
	threads := perCore(t)
	if n%threads != 0 {
		return cpuset.New(), &SMTAlignmentError{Requested: n, PerCore: threads, Available: -1}
	}
	whole := wholeCores(t, free, 0)
	if n > whole.Size() {
		return cpuset.New(), &SMTAlignmentError{Requested: n, PerCore: threads, Available: whole.Size()}
	}
	// Parts of cores are used to find the fullest parts of the machine. Then without them, then with equal cores only,
	// of which any n CPUs are whole ones.
	for _, from := range []cpuset.CPUSet{free, whole, wholeCores(t, free, threads)} {
		if got, err := aligned(t, from, n, o, affinity); err == nil && wholeCores(t, got, 0).Size() == n {
			return got, nil
		}
	}
	return cpuset.New(), &SMTAlignmentError{Requested: n, PerCore: threads, Available: wholeCores(t, free, threads).Size()}
}

// aligned takes CPUs of the affinity first.
func aligned(t *topology.Machine, free cpuset.CPUSet, n int, o Options, near topology.Nodes) (cpuset.CPUSet, error) {
	got := cpuset.New()
	if near != 0 {
		// An affinity to more nodes than CPUs need is for devices near to each of them.
		these := free.Intersection(Near(t, o, near))
		var err error
		if got, err = choose(t, these, min(n, these.Size()), near.Size(), o); err != nil {
			return cpuset.New(), err
		}
	}
	rest, err := choose(t, free.Difference(got), n-got.Size(), 1, o)
	if err != nil {
		return cpuset.New(), err
	}
	return got.Union(rest), nil
}

// Near are the CPUs of an affinity: those of its nodes, with align-by-socket those of their sockets. Without one, all.
func Near(t *topology.Machine, o Options, affinity topology.Nodes) cpuset.CPUSet {
	sockets := map[int]bool{}
	for _, c := range t.CPUs {
		if affinity.Has(c.Node) {
			sockets[c.Socket] = true
		}
	}
	return t.Where(func(c topology.CPU) bool {
		return affinity == 0 || affinity.Has(c.Node) || o.AlignBySocket && sockets[c.Socket]
	})
}

// choose is Take without an affinity and without the guarantee of whole cores. With distribute-cpus-across-numa, CPUs
// are of at least as many nodes as are given, if they can be.
func choose(t *topology.Machine, free cpuset.CPUSet, n, nodes int, o Options) (cpuset.CPUSet, error) {
	a := newTaker(t, free, n, o)
	if n > len(a.free) {
		return cpuset.New(), &ShortError{Requested: n, Available: len(a.free)}
	}
	group := 1
	if o.FullPCPUsOnly {
		group = perCore(t)
	}
	if !o.DistributeAcrossNUMA || n%group != 0 || !a.distribute(group, nodes) {
		a.pack()
	}
	return cpuset.New(a.got...), nil
}

// perCore is how many CPUs the largest core has.
func perCore(t *topology.Machine) int {
	most := 1
	for _, n := range count(t.CPUs, core) { // order-free: a maximum
		most = max(most, n)
	}
	return most
}

// wholeCores are the CPUs of a set whose cores are all in the set; with a size, only of cores of that size.
func wholeCores(t *topology.Machine, set cpuset.CPUSet, size int) cpuset.CPUSet {
	all := count(t.CPUs, core)
	in := count(members(t, set), core)
	return set.Intersection(t.Where(func(c topology.CPU) bool {
		return in[c.Core] == all[c.Core] && (size == 0 || all[c.Core] == size)
	}))
}
