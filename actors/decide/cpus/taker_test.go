package cpus

import (
	"testing"

	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/topology"
	"github.com/troupe-dev/troupe/tests/check"
)

// check holds the invariant of a taker, of which so many CPUs were asked for.
func (a *taker) check(asked int) error {
	free := cpuset.New()
	for _, c := range a.free {
		free = free.Union(cpuset.New(c.ID))
	}
	if got := cpuset.New(a.got...); !got.Intersection(free).IsEmpty() || len(a.got)+a.need != asked || got.Size() != len(a.got) {
		return check.That(false, "free and got are disjoint, and len(got) + need is what was asked for: got %v, free %v, need %d of %d",
			a.got, free, a.need, asked)
	}
	return nil
}

// TestTaker: the invariant holds after each step, whatever is taken; and it is seen to be broken.
func TestTaker(t *testing.T) {
	for name, m := range map[string]*topology.Machine{
		"two sockets": shape{2, 1, 1, 4, 2}.build(), "caches": shape{2, 2, 2, 2, 2}.build(), "many nodes": shape{1, 4, 1, 2, 2}.build(),
	} {
		all := cpuset.New()
		for _, c := range m.CPUs {
			all = all.Union(cpuset.New(c.ID))
		}
		for n := range len(m.CPUs) + 1 {
			for _, o := range []Options{{}, {DistributeAcrossCores: true}, {AlignByCache: true}} {
				a := newTaker(m, all, n, o)
				check.Fatal(t, a.check(n))
				a.whole(a.sockets)
				check.Fatal(t, a.check(n))
				a.pack()
				check.Fatal(t, a.check(n))
				check.Equal(t, a.need, 0, "%s: of %d CPUs are missing", name, n)
			}
		}
	}
	a := newTaker(shape{2, 1, 1, 4, 2}.build(), cpuset.New(0, 1), 2, Options{})
	a.got = append(a.got, 0)
	check.Fails(t, a.check(2), "a CPU that is free and taken")
	a.free, a.need = nil, 2
	check.Fails(t, a.check(2), "more than was asked for")
}
