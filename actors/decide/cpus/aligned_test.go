package cpus_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/topology"
	"github.com/troupe-dev/troupe/tests/check"
)

// threaded is a machine with two NUMA nodes, each of two caches with a core of two threads: 0 and 1, 2 and 3, …
func threaded() *topology.Machine {
	t := &topology.Machine{Nodes: []topology.Node{{ID: 0, Memory: 1 << 30}, {ID: 1, Memory: 1 << 30}, {ID: 2, Memory: 1 << 30}}}
	for id := range 8 {
		t.CPUs = append(t.CPUs, topology.CPU{ID: id, Core: id &^ 1, Cache: id &^ 1, Socket: id / 4, Node: id / 4})
	}
	return t
}

func (a alignments) String() string {
	var out []string
	for to, n := range a {
		out = append(out, fmt.Sprintf("%s/%s %d", to.Scope, to.Boundary, n))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

type alignments map[cpus.Alignment]int

func whole(c *cpus.Config) { c.Options.FullPCPUsOnly = true }

func oneNode(scope string) func(*cpus.Config) {
	return func(c *cpus.Config) {
		c.Topology, c.Scope = kubelet.SingleNumaNodeTopologyManagerPolicy, scope
	}
}

// TestAligned: what a pod gets aligned, or what it is refused for. Nothing is counted that Alignments does not name.
func TestAligned(t *testing.T) {
	for _, c := range []struct {
		name   string
		had    cpus.State
		change func(*cpus.Config)
		pod    *v1.Pod
		runs   bool
		want   string // or what it is refused for
	}{
		{name: "none of its own", pod: guaranteed("a", "500m")},
		{name: "one cache", pod: guaranteed("a", "2", "500m"), want: "container/uncore_cache 1"},
		{name: "two caches", pod: guaranteed("a", "3")},
		{name: "one CPU", pod: guaranteed("a", "1"), want: "container/uncore_cache 1"},
		{name: "each container", pod: guaranteed("a", "init 1", "2", "1"), want: "container/uncore_cache 3"},
		{name: "it had them", had: cpus.State{"a": {"c0": cpuset.New(2, 3)}}, pod: guaranteed("a", "2", "1"), want: "container/uncore_cache 1"},
		{name: "too many", pod: guaranteed("a", "8"), want: "refused"},
		{name: "whole cores", change: whole, pod: guaranteed("a", "2", "4"), want: "container/physical_cpu 2, container/uncore_cache 1"},
		{
			name: "whole cores, as it had them", change: whole, had: cpus.State{"a": {"c0": cpuset.New(2, 3)}}, pod: guaranteed("a", "2"),
			runs: true, want: "container/physical_cpu 1",
		},
		{
			name: "it had half a core, of other settings", change: whole, had: cpus.State{"a": {"c0": cpuset.New(2, 5)}},
			pod: guaranteed("a", "2"), runs: true,
		},
		{name: "no whole cores", change: whole, pod: guaranteed("a", "3"), want: "refused: container/physical_cpu"},
		{name: "too many cores", change: whole, pod: guaranteed("a", "8"), want: "refused: container/physical_cpu"},
		{
			name: "containers of one node", change: oneNode("container"), pod: guaranteed("a", "init 500m", "3", "1"),
			want: "container/numa_node 3, container/uncore_cache 1",
		},
		{name: "no such node", change: oneNode("container"), pod: guaranteed("a", "5"), want: "refused: container/numa_node"},
		{name: "a pod of one node", change: oneNode("pod"), pod: guaranteed("a", "3", "500m"), want: "pod/numa_node 1"},
		{name: "no such node for a pod", change: oneNode("pod"), pod: guaranteed("a", "3", "3"), want: "refused: pod/numa_node"},
		{
			name: "it runs, from wherever", change: oneNode("pod"), had: cpus.State{"a": {"c0": cpuset.New(3, 4)}},
			pod: guaranteed("a", "2"), runs: true,
		},
		{
			name:   "the kubelet does not count restricted",
			change: func(c *cpus.Config) { c.Topology = kubelet.RestrictedTopologyManagerPolicy },
			pod:    guaranteed("a", "2"), want: "container/uncore_cache 1",
		},
		{
			name: "nor refusals of it", change: func(c *cpus.Config) { c.Topology = kubelet.RestrictedTopologyManagerPolicy },
			had: cpus.State{"b": {"c0": cpuset.New(1, 5)}}, pod: guaranteed("a", "4"), want: "refused",
		},
		{
			name: "no CPU manager", change: func(c *cpus.Config) {
				oneNode("pod")(c)
				c.Static = false
			}, pod: guaranteed("a", "5"), want: "pod/numa_node 1",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rules(t, threaded(), c.change)
			own, why := r.Place(c.had, c.pod, c.runs)
			counted, refused := r.Alignments()
			got := ""
			switch to := r.Misaligned(why); {
			case why == nil:
				all := r.Aligned(c.pod, c.runs, c.had[c.pod.UID], own)
				got = alignments(all).String()
				for to := range all { // order-free: each on its own
					if !slices.Contains(counted, to) {
						t.Errorf("%v is counted, and not one of %v", to, counted)
					}
				}
			case to == cpus.Alignment{}:
				got = "refused"
			default:
				got = fmt.Sprintf("refused: %s/%s", to.Scope, to.Boundary)
				if !slices.Contains(refused, to) {
					t.Errorf("the pod is refused for %v, which is not one of %v", to, refused)
				}
			}
			if got != c.want {
				t.Errorf("%s: %q, want %q (%v)", text(own), got, c.want, why)
			}
		})
	}
}

// TestMemoryIsNotMisaligned: a pod without memory of its own is not refused for an alignment.
func TestMemoryIsNotMisaligned(t *testing.T) {
	r := rules(t, threaded(), func(c *cpus.Config) {
		whole(c)
		oneNode("pod")(c)
	})
	for _, why := range []*admit.Rejection{{Reason: admit.UnexpectedAdmissionError, Of: v1.ResourceMemory}, {Reason: admit.UnexpectedAdmissionError}} {
		check.Equal(t, r.Misaligned(why), (cpus.Alignment{}), "%+v is for", why)
	}
}

func TestAlignments(t *testing.T) {
	for _, c := range []struct {
		policy string
		static bool
		want   string
	}{
		{kubelet.NoneTopologyManagerPolicy, false, "[] []"},
		{kubelet.NoneTopologyManagerPolicy, true, "[{container physical_cpu} {container uncore_cache}] [{container physical_cpu}]"},
		{
			kubelet.BestEffortTopologyManagerPolicy, false,
			"[{container numa_node} {pod numa_node}] [{container numa_node} {pod numa_node}]",
		},
	} {
		r := rules(t, threaded(), func(a *cpus.Config) { a.Topology, a.Static = c.policy, c.static })
		counted, refused := r.Alignments()
		check.Equal(t, fmt.Sprint(counted, refused), c.want, "%s, %t", c.policy, c.static)
	}
}

// TestOwnPerNode: a node whose CPUs nobody has is counted too, and one without CPUs is not.
func TestOwnPerNode(t *testing.T) {
	r := rules(t, threaded(), nil)
	for want, s := range map[string]cpus.State{
		"map[0:0 1:0]": {},
		"map[0:2 1:1]": {"a": {"c0": cpuset.New(1, 2), "c1": cpuset.New(1)}, "b": {"c0": cpuset.New(4)}},
	} {
		check.Equal(t, fmt.Sprint(r.OwnPerNode(s)), want, "%v", s)
	}
}
