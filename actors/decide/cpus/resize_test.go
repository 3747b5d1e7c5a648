package cpus_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/tests/check"
)

func resizes(change func(*cpus.Config)) func(*cpus.Config) {
	return func(c *cpus.Config) {
		c.Resizes = true
		if change != nil {
			change(c)
		}
	}
}

func policy(name string) func(*cpus.Config) {
	return func(c *cpus.Config) { c.Topology = name }
}

// TestResize: two NUMA nodes, 0-3 and 4-7, of which the system has 0.
func TestResize(t *testing.T) {
	one, restricted := policy(kubelet.SingleNumaNodeTopologyManagerPolicy), policy(kubelet.RestrictedTopologyManagerPolicy)
	wholePod := func(c *cpus.Config) {
		one(c)
		c.Scope = kubelet.PodTopologyManagerScope
	}
	has := func(sets ...cpuset.CPUSet) map[string]cpuset.CPUSet {
		own := map[string]cpuset.CPUSet{}
		for i, s := range sets {
			if !s.IsEmpty() {
				own[fmt.Sprint("c", i)] = s
			}
		}
		return own
	}
	for _, c := range []struct {
		name   string
		had    map[string]cpuset.CPUSet
		others cpuset.CPUSet // of another pod
		change func(*cpus.Config)
		pod    *v1.Pod
		want   string // or what its refusal says, after "never: " or "now: "
	}{
		{name: "more", had: has(cpuset.New(1)), pod: guaranteed("a", "3"), want: "c0: 1-3"},
		{name: "more, near to what it has", had: has(cpuset.New(4)), pod: guaranteed("a", "3"), want: "c0: 4-6"},
		{name: "more, from elsewhere too", had: has(cpuset.New(4)), others: cpuset.New(5, 6), pod: guaranteed("a", "3"), want: "c0: 1,4,7"},
		{name: "as many", had: has(cpuset.New(3)), pod: guaranteed("a", "1"), want: "c0: 3"},
		{name: "fewer", had: has(cpuset.New(1, 2, 3)), pod: guaranteed("a", "2"), want: "c0: 1-2"},
		{name: "none", had: has(cpuset.New(1, 2), cpuset.New(3)), pod: guaranteed("a", "1500m", "1"), want: "c1: 3"},
		{name: "some, and had none", had: has(cpuset.New(), cpuset.New(3)), pod: guaranteed("a", "2", "1"), want: "c0: 1-2; c1: 3"},
		{name: "what one gives up the other does not get at once", had: has(cpuset.New(1, 2), cpuset.New(3)), pod: guaranteed("a", "1", "2"), want: "c0: 1; c1: 3-4"},
		{name: "nor if nothing else is free", had: has(cpuset.New(1, 2), cpuset.New(3)), others: cpuset.New(4, 5, 6, 7), pod: guaranteed("a", "1", "2"),
			want: `now: container "c1" has 1 exclusive CPUs and asks for 2: not enough cpus available to satisfy request: requested=1, available=0`},
		{name: "all that the pod may have, exchanged", had: has(cpuset.New(1, 2, 3, 4), cpuset.New(5, 6)), pod: guaranteed("a", "2", "4"),
			want: "now: resize these first, and then the others"},
		{name: "init containers have ended", had: has(cpuset.New(1, 2, 3), cpuset.New(1)), pod: guaranteed("a", "init 3", "2"), want: "c0: 1-3; c1: 1-2"},
		{name: "an init container gets more", had: has(cpuset.New(1, 2)), pod: guaranteed("a", "init 4", "500m"), want: "c0: 1-4"},
		{name: "and another container has some of what it had", had: has(cpuset.New(1, 2), cpuset.New(1)), pod: guaranteed("a", "init 4", "1"),
			want: "c0: 1-4; c1: 1"},
		{name: "and another init container", had: has(cpuset.New(1, 2), cpuset.New(1, 2, 3)), pod: guaranteed("a", "init 4", "init 3", "500m"),
			want: "c0: 1-4; c1: 1-3"},
		{name: "one gives up what an init container had", had: has(cpuset.New(1, 2), cpuset.New(1), cpuset.New(2)), others: cpuset.New(3, 4, 5, 6, 7),
			pod: guaranteed("a", "init 2", "500m", "2"), want: "now: requested=1, available=0"},
		{name: "restricted, the same", had: has(cpuset.New(4, 5, 6, 7), cpuset.New(4, 5), cpuset.New(6, 7)), change: restricted,
			pod: guaranteed("a", "init 4", "1", "3"), want: "now: Topology locality"},
		{name: "others have them", had: has(cpuset.New(1)), others: cpuset.New(2, 3, 4, 5, 6, 7), pod: guaranteed("a", "2"), want: "now: requested=1, available=0"},
		{name: "there are not as many", had: has(cpuset.New(1)), pod: guaranteed("a", "8"), want: "never: requested=7, available=6"},
		{name: "single-numa-node", had: has(cpuset.New(4)), change: one, pod: guaranteed("a", "4"), want: "c0: 4-7"},
		{name: "single-numa-node, others are there", had: has(cpuset.New(4)), others: cpuset.New(5), change: one, pod: guaranteed("a", "4"),
			want: "now: topologyManagerPolicy does not admit where more CPUs are: Resources cannot be allocated with Topology locality"},
		{name: "single-numa-node, it has none as large", had: has(cpuset.New(4)), change: one, pod: guaranteed("a", "5"), want: "never: Topology locality"},
		{name: "single-numa-node, this one is too small", had: has(cpuset.New(1)), change: one, pod: guaranteed("a", "4"), want: "never: Topology locality"},
		{name: "restricted, no node is as large", had: has(cpuset.New(1)), change: restricted, pod: guaranteed("a", "5"), want: "c0: 1-5"},
		{name: "restricted, others are there", had: has(cpuset.New(4)), others: cpuset.New(5, 6), change: restricted, pod: guaranteed("a", "3"), want: "now: Topology locality"},
		{name: "best-effort", had: has(cpuset.New(4)), others: cpuset.New(5, 6), change: policy(kubelet.BestEffortTopologyManagerPolicy),
			pod: guaranteed("a", "3"), want: "c0: 1,4,7"},
		{name: "fewer than a node, from two", had: has(cpuset.New(3, 4)), change: one, pod: guaranteed("a", "1"), want: "c0: 3"},
		{name: "the rest is where it should not be, and stays", had: has(cpuset.New(2, 5), cpuset.New(3)), change: one, pod: guaranteed("a", "2", "1500m"), want: "c0: 2,5"},
		{name: "of whole pods", had: has(cpuset.New(4), cpuset.New(5)), change: wholePod, pod: guaranteed("a", "2", "2"), want: "c0: 4,6; c1: 5,7"},
		{name: "of whole pods, too many", had: has(cpuset.New(4), cpuset.New(5)), change: wholePod, pod: guaranteed("a", "3", "2"), want: "never: Topology locality"},
		{name: "nothing is shared", had: has(cpuset.New(1)), others: cpuset.New(2, 3, 4, 5, 6, 7), pod: guaranteed("a", "500m"),
			change: func(c *cpus.Config) { c.Options.StrictReservation = true }, want: "now: no CPUs that containers share"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rules(t, flat(2, 4), resizes(c.change))
			s := cpus.State{"a": c.had}
			if !c.others.IsEmpty() {
				s["b"] = map[string]cpuset.CPUSet{"c0": c.others}
			}
			got, why := r.Resize(s, c.pod)
			if why != nil {
				says := "now: " + why.Message
				if why.Never {
					says = "never: " + why.Message
				}
				when, what, _ := strings.Cut(c.want, ": ")
				if !strings.HasPrefix(says, when) || !strings.Contains(says, what) {
					t.Errorf("%s; want %s", says, c.want)
				}
				return
			}
			check.Equal(t, text(got), c.want, "it")
			again, _ := r.Place(cpus.State{"a": cpus.Held(c.had, got)}, c.pod, true)
			if left := cpus.Left(cpus.Held(c.had, got), again); !cpus.Same(left, again) {
				t.Errorf("after a restart: %s; left %s", text(again), text(left))
			}
		})
	}
}

func TestResizeOfWholeCores(t *testing.T) {
	r := rules(t, threaded(), resizes(whole))
	s := cpus.State{"a": {"c0": cpuset.New(2, 3)}}
	for cpu, want := range map[string]string{"4": "c0: 2-5", "3": "SMT Alignment Error", "1": "SMT Alignment Error", "8": "SMT Alignment Error"} {
		got, why := r.Resize(s, guaranteed("a", cpu))
		if why == nil && text(got) != want || why != nil && (!why.Never || !strings.Contains(why.Message, want)) {
			t.Errorf("%s CPUs: %s, %+v; want %s", cpu, text(got), why, want)
		}
	}
}

// TestPlaceFollowsTheAllocation: what an earlier agent left differs from what the pod was allocated.
func TestPlaceFollowsTheAllocation(t *testing.T) {
	for _, c := range []struct {
		had, others cpuset.CPUSet
		cpu         string
		want        string
	}{
		{cpuset.New(1, 2, 3), cpuset.New(), "2", "c0: 1-2"},
		{cpuset.New(1, 2, 3), cpuset.New(), "500m", ""},
		{cpuset.New(1), cpuset.New(2), "2", "c0: 1,3"},
		{cpuset.New(1), cpuset.New(2, 3, 4, 5, 6, 7), "2", "c0: 1"}, // it runs, and is not rejected
	} {
		for _, name := range []string{kubelet.NoneTopologyManagerPolicy, kubelet.SingleNumaNodeTopologyManagerPolicy} {
			r := rules(t, flat(2, 4), resizes(policy(name)))
			s := cpus.State{"a": {"c0": c.had}, "b": {"c0": c.others}}
			if got, why := r.Place(s, guaranteed("a", c.cpu), true); why != nil || text(got) != c.want {
				t.Errorf("%s, %s CPUs, had %s: %s, %v; want %s", name, c.cpu, c.had, text(got), why, c.want)
			}
		}
	}
	r := rules(t, flat(2, 4), nil)
	if got, _ := r.Place(cpus.State{"a": {"c0": cpuset.New(1, 2, 3)}}, guaranteed("a", "2"), true); text(got) != "c0: 1-3" {
		t.Errorf("where resizes do not change CPUs: %s", text(got))
	}
}

// TestResizesNeverShare: pods come, are resized and go in any order, and containers leave what they gave up later. At no
// instant may two containers of what they run on or are told to run on have the same CPU, but for init containers.
func TestResizesNeverShare(t *testing.T) {
	policies := []string{kubelet.NoneTopologyManagerPolicy, kubelet.BestEffortTopologyManagerPolicy,
		kubelet.RestrictedTopologyManagerPolicy, kubelet.SingleNumaNodeTopologyManagerPolicy}
	count := map[string]int{}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 53))
		r := rules(t, flat(1+random.IntN(3), 4), resizes(func(c *cpus.Config) {
			c.Topology = policies[random.IntN(len(policies))]
			if random.IntN(2) == 0 {
				c.Scope = kubelet.PodTopologyManagerScope
			}
			c.Options = cpus.Options{StrictReservation: random.IntN(2) == 0}
		}))
		s, pods, runsOn, n := cpus.State{}, map[types.UID]*v1.Pod{}, map[types.UID]map[string]cpuset.CPUSet{}, 0
		made := func(uid string, containers int) *v1.Pod {
			var requests []string
			for range containers {
				requests = append(requests, []string{"1", "2", "500m", "3"}[random.IntN(4)])
			}
			return guaranteed(uid, requests...)
		}
		pick := func() (types.UID, bool) {
			for i := range n {
				if uid := types.UID(fmt.Sprint("p", (i+int(seed))%n)); pods[uid] != nil && random.IntN(2) == 0 {
					return uid, true
				}
			}
			return "", false
		}
		for range 60 {
			uid, is := pick()
			switch random.IntN(4) {
			case 0:
				p := made(fmt.Sprint("p", n), 1+random.IntN(2))
				if own, why := r.Place(s, p, false); why == nil {
					s[p.UID], pods[p.UID], runsOn[p.UID] = own, p, own
					n++
				}
			case 1:
				if is {
					delete(s, uid)
					delete(pods, uid)
					delete(runsOn, uid)
				}
			default:
				if !is {
					continue
				}
				p := made(string(uid), len(pods[uid].Spec.Containers))
				own, why := r.Resize(s, p)
				if why != nil {
					count["refused"]++
					continue
				}
				for name, set := range own { // order-free: each on its own
					if had := s[uid][name]; !had.IsSubsetOf(set) && !set.IsSubsetOf(had) {
						t.Fatalf("seed %d: %s %s had %s and gets %s", seed, uid, name, had, set)
					}
				}
				count["resized"]++
				s[uid], pods[uid] = cpus.Held(s[uid], own), p
				seen := cpuset.New()
				for _, held := range s { // order-free: any pair will do
					for _, set := range held { // order-free: as above
						if both := seen.Intersection(set); !both.IsEmpty() {
							t.Fatalf("seed %d: two have %s: %v", seed, both, s)
						}
						seen = seen.Union(set)
					}
				}
				s[uid], runsOn[uid] = cpus.Left(s[uid], own), own
			}
			if err := r.Check(s, r.Shared(s)); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			for uid, p := range pods { // order-free: each on its own
				for name, want := range cpus.Entitled(p) { // order-free: as above
					if got := s[uid][name].Size(); got != want {
						t.Fatalf("seed %d: %s %s has %d CPUs; want %d", seed, uid, name, got, want)
					}
				}
			}
		}
	}
	if count["resized"] < 1000 || count["refused"] < 200 {
		t.Errorf("%v", count)
	}
}
