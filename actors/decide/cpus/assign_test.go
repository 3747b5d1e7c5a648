package cpus_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/topology"
	"github.com/troupe-dev/troupe/tests/check"
)

// flat is a machine with so many NUMA nodes, each a socket of so many cores without threads.
func flat(nodes, cores int) *topology.Machine {
	t := &topology.Machine{}
	for n := range nodes {
		distances := make([]int, nodes)
		for i := range distances {
			distances[i] = 20
		}
		distances[n] = 10
		t.Nodes = append(t.Nodes, topology.Node{ID: n, Memory: 1 << 30, Distances: distances})
		for c := range cores {
			id := n*cores + c
			t.CPUs = append(t.CPUs, topology.CPU{ID: id, Core: id, Cache: n * cores, Socket: n, Node: n})
		}
	}
	return t
}

func rules(t *testing.T, m *topology.Machine, change func(*cpus.Config)) *cpus.Rules {
	t.Helper()
	c := cpus.Config{
		Machine: m, Static: true, ReservedMilli: 1000, Topology: kubelet.NoneTopologyManagerPolicy,
		TopologyOptions: topology.Options{MaxNodes: 8}, Scope: kubelet.ContainerTopologyManagerScope,
	}
	if change != nil {
		change(&c)
	}
	return check.Value(cpus.New(c))(t)
}

// guaranteed is a pod with containers of so many CPUs, as text; a name that begins with "init" is an init container.
func guaranteed(uid string, requests ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, Namespace: "default", UID: types.UID(uid)}}
	for i, cpu := range requests {
		name, cpu, init := fmt.Sprint("c", i), strings.TrimPrefix(cpu, "init "), strings.HasPrefix(cpu, "init ")
		all := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("1Mi")}
		c := v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: all, Limits: all}}
		if init {
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		} else {
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
	}
	return p
}

func text(own map[string]cpuset.CPUSet) string {
	var out []string
	for i := range 8 {
		if set, ok := own[fmt.Sprint("c", i)]; ok {
			out = append(out, fmt.Sprintf("c%d: %s", i, set))
		}
	}
	return strings.Join(out, "; ")
}

func TestPlace(t *testing.T) {
	for _, c := range []struct {
		name   string
		had    cpus.State
		change func(*cpus.Config)
		pod    *v1.Pod
		want   string // or the reason of the rejection
		shared string
	}{
		{name: "one container", pod: guaranteed("a", "2"), want: "c0: 1-2", shared: "0,3-7"},
		{name: "not integral", pod: guaranteed("a", "1500m"), shared: "0-7"},
		{name: "one of two", pod: guaranteed("a", "500m", "1"), want: "c1: 1", shared: "0,2-7"},
		{name: "init containers give theirs on", pod: guaranteed("a", "init 3", "2", "1"), want: "c0: 1-3; c1: 1-2; c2: 3", shared: "0,4-7"},
		{name: "beside another", had: cpus.State{"b": {"c0": cpuset.New(1, 2)}}, pod: guaranteed("a", "2"), want: "c0: 3-4", shared: "0,5-7"},
		{name: "what it has stays", had: cpus.State{"a": {"c0": cpuset.New(7)}}, pod: guaranteed("a", "1", "1"), want: "c0: 7; c1: 1", shared: "0,2-6"},
		{name: "too many", pod: guaranteed("a", "8"), want: "UnexpectedAdmissionError", shared: "0-7"},
		{
			name: "one node", change: func(c *cpus.Config) { c.Topology = kubelet.SingleNumaNodeTopologyManagerPolicy },
			pod: guaranteed("a", "4"), want: "c0: 4-7", shared: "0-3",
		},
		{
			name: "no node has as many", change: func(c *cpus.Config) { c.Topology = kubelet.SingleNumaNodeTopologyManagerPolicy },
			pod: guaranteed("a", "5"), want: "TopologyAffinityError", shared: "0-7",
		},
		{
			name: "containers on a node each", change: func(c *cpus.Config) { c.Topology = kubelet.RestrictedTopologyManagerPolicy },
			pod: guaranteed("a", "3", "3"), want: "c0: 1-3; c1: 4-6", shared: "0,7",
		},
		{
			name: "the whole pod on a node", change: func(c *cpus.Config) {
				c.Topology, c.Scope = kubelet.SingleNumaNodeTopologyManagerPolicy, kubelet.PodTopologyManagerScope
			},
			pod: guaranteed("a", "2", "2"), want: "c0: 4-5; c1: 6-7", shared: "0-3",
		},
		{
			name: "the whole pod does not fit a node", change: func(c *cpus.Config) {
				c.Topology, c.Scope = kubelet.SingleNumaNodeTopologyManagerPolicy, kubelet.PodTopologyManagerScope
			},
			pod: guaranteed("a", "3", "3"), want: "TopologyAffinityError", shared: "0-7",
		},
		{
			name: "nothing shares the system's", change: func(c *cpus.Config) { c.Options.StrictReservation = true },
			pod: guaranteed("a", "1"), want: "c0: 1", shared: "2-7",
		},
		{
			name: "the system's by name", change: func(c *cpus.Config) { c.Reserved = cpuset.New(1, 4) },
			pod: guaranteed("a", "1"), want: "c0: 0", shared: "1-7",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rules(t, flat(2, 4), c.change)
			s := cpus.State{}
			for uid, own := range c.had { // order-free: a copy
				s[uid] = own
			}
			got, why := r.Place(s, c.pod, false)
			if why != nil {
				check.Equal(t, why.Reason, c.want, "rejected: %v", why)
			} else {
				check.Equal(t, text(got), c.want, "it")
				s[c.pod.UID] = got
			}
			check.Equal(t, r.Shared(s).String(), c.shared, "shared")
			check.Error(t, r.Check(s, r.Shared(s)))
		})
	}
}

// at is a provider of something that a container has on some nodes.
type at struct {
	container string
	nodes     topology.Nodes
}

func (a at) Hints(group []*v1.Container) [][]topology.Hint {
	if group[0].Name != a.container {
		return nil
	}
	return [][]topology.Hint{{{Nodes: a.nodes, Preferred: true}}}
}

func (at) Take(*v1.Container, topology.Hint) *admit.Rejection { return nil }

// TestCPUsOfInitContainers are used again, so that a pod has no more than the scheduler has counted for it (kubernetes
// #112228). The machine has the cores 0-1 to 6-7, and two NUMA nodes. The system has 0.
func TestCPUsOfInitContainers(t *testing.T) {
	first := cpus.State{"a": {"c0": cpuset.New(1)}} // a kubelet has chosen it
	for _, c := range []struct {
		name   string
		had    cpus.State
		change func(*cpus.Config)
		others []topology.Provider
		pod    *v1.Pod
		want   string
	}{
		{name: "fewer than the main container", pod: guaranteed("a", "init 1", "2"), want: "c0: 2; c1: 2-3"},
		{name: "more", pod: guaranteed("a", "init 3", "2"), want: "c0: 1-3; c1: 2-3"},
		{name: "one after the other", pod: guaranteed("a", "init 1", "init 2", "2"), want: "c0: 2; c1: 2-3; c2: 2-3"},
		{name: "not all by the first", pod: guaranteed("a", "init 1", "2", "1"), want: "c0: 1; c1: 2-3; c2: 1"},
		{name: "part of a core", had: first, pod: guaranteed("a", "init 1", "2"), want: "c0: 1; c1: 1-2"},
		{name: "whole cores", change: whole, pod: guaranteed("a", "init 2", "4"), want: "c0: 4-5; c1: 4-7"},
		{name: "across nodes", change: func(c *cpus.Config) { c.Options.DistributeAcrossNUMA = true },
			pod: guaranteed("a", "init 1", "6"), want: "c0: 1; c1: 1-6"},
		{name: "a resize", had: cpus.State{"a": {"c0": cpuset.New(4, 6), "c1": cpuset.New(4)}}, change: resizes(nil),
			pod: guaranteed("a", "init 2", "2"), want: "c0: 4,6; c1: 4,6"},
		{name: "not those that are far", had: first, change: policy(kubelet.BestEffortTopologyManagerPolicy),
			others: []topology.Provider{at{"c1", topology.NodesOf(1)}}, pod: guaranteed("a", "init 1", "2"), want: "c0: 1; c1: 4-5"},
		{name: "far, and nearer ones are too few", had: first, change: policy(kubelet.BestEffortTopologyManagerPolicy),
			others: []topology.Provider{at{"c1", topology.NodesOf(1)}}, pod: guaranteed("a", "init 1", "5"), want: "c0: 1; c1: 1,4-7"},
	} {
		got, why := rules(t, threaded(), c.change).Place(c.had, c.pod, false, c.others...)
		if why != nil || text(got) != c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, text(got), why, c.want)
		}
	}
}

// TestNoCPUTwice: pods come and go in any order, and are placed again as after a restart. No CPU is lost, or one's of
// two, and no pod has more than the scheduler has counted for it.
func TestNoCPUTwice(t *testing.T) {
	policies := []string{kubelet.NoneTopologyManagerPolicy, kubelet.BestEffortTopologyManagerPolicy,
		kubelet.RestrictedTopologyManagerPolicy, kubelet.SingleNumaNodeTopologyManagerPolicy}
	placed := 0
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 14))
		m := flat(1+random.IntN(3), 4+4*random.IntN(2))
		for i := range m.CPUs {
			m.CPUs[i].Core &^= int(seed % 2) // with threads, or without
		}
		r := rules(t, m, func(c *cpus.Config) {
			c.Topology = policies[random.IntN(len(policies))]
			if random.IntN(2) == 0 {
				c.Scope = kubelet.PodTopologyManagerScope
			}
			c.Options = cpus.Options{StrictReservation: random.IntN(2) == 0, DistributeAcrossNUMA: random.IntN(4) == 0}
		})
		s, pods := cpus.State{}, map[types.UID]*v1.Pod{}
		for step := range 100 {
			var requests []string
			for range 1 + random.IntN(3) {
				requests = append(requests, []string{"1", "2", "500m", "init 2", "3", "init 1"}[random.IntN(6)])
			}
			p := guaranteed(fmt.Sprint("p", step), append(requests, "1")...)
			if own, why := r.Place(s, p, false); why == nil {
				s[p.UID], pods[p.UID] = own, p
				placed++
				all := cpuset.New()
				for _, set := range own { // order-free: a union
					all = all.Union(set)
				}
				if n := cpus.ExclusiveOfPod(p, false); all.Size() > n {
					t.Fatalf("seed %d: %s has %d CPUs, and the scheduler has counted %d", seed, text(own), all.Size(), n)
				}
			}
			for uid, old := range pods { // order-free: each on its own
				again, why := r.Place(s, old, false)
				if why != nil || text(again) != text(s[uid]) {
					t.Fatalf("seed %d: %s placed again: %v, %s; had %s", seed, uid, why, text(again), text(s[uid]))
				}
			}
			if random.IntN(3) == 0 {
				gone := types.UID(fmt.Sprint("p", random.IntN(step+1)))
				delete(s, gone)
				delete(pods, gone)
			}
			if err := r.Check(s, r.Shared(s)); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			for uid, p := range pods { // order-free: each on its own
				for i := range p.Spec.Containers {
					c := &p.Spec.Containers[i]
					if got, want := s[uid][c.Name].Size(), cpus.Exclusive(p, c, false); got != want {
						t.Fatalf("seed %d: %s %s has %d CPUs; want %d", seed, uid, c.Name, got, want)
					}
				}
			}
		}
	}
	check.AtLeast(t, placed, 500, "only %d pods were placed", placed)
}

func TestCheck(t *testing.T) {
	r := rules(t, flat(1, 4), nil)
	for _, c := range []struct {
		state  cpus.State
		shared cpuset.CPUSet
		want   string
	}{
		{cpus.State{}, cpuset.New(), ""},
		{cpus.State{}, cpuset.New(0, 1, 2, 3), ""},
		{cpus.State{"a": {"c0": cpuset.New(1)}}, cpuset.New(0, 2, 3), ""},
		{cpus.State{"a": {"c0": cpuset.New(1), "c1": cpuset.New(1)}}, cpuset.New(0, 2, 3), ""},
		{cpus.State{"a": {"c0": cpuset.New(1)}, "b": {"c0": cpuset.New(1)}}, cpuset.New(0, 2, 3), "for pod b and for another"},
		{cpus.State{"a": {"c0": cpuset.New(0)}}, cpuset.New(1, 2, 3), "reserved for the system"},
		{cpus.State{"a": {"c0": cpuset.New(1)}}, cpuset.New(0, 1, 2, 3), "as shared and as those of a pod"},
		{cpus.State{}, cpuset.New(0, 1), "other CPUs"},
		{cpus.State{"a": {"c0": cpuset.New(9)}}, cpuset.New(), "other CPUs"},
	} {
		err := r.Check(c.state, c.shared)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, %s: %v; want %q", c.state, c.shared, err, c.want)
		}
	}
}

func TestNew(t *testing.T) {
	for _, c := range []struct {
		change func(*cpus.Config)
		want   string
	}{
		{func(c *cpus.Config) { c.ReservedMilli = 0 }, "no CPUs are reserved"},
		{func(c *cpus.Config) { c.Reserved = cpuset.New(77) }, "CPUs 77 are not online"},
		{func(c *cpus.Config) { c.Topology = "x" }, `topologyManagerPolicy "x"`},
	} {
		config := cpus.Config{Machine: flat(1, 2), Static: true, ReservedMilli: 1000, Topology: kubelet.NoneTopologyManagerPolicy}
		c.change(&config)
		check.Says(t, check.Err(cpus.New(config)), c.want, "the error")
	}
}

// TestPodsThatRun are not rejected for what the topology policy wants: their CPUs and devices are not chosen once more.
func TestPodsThatRun(t *testing.T) {
	for _, policy := range []string{kubelet.RestrictedTopologyManagerPolicy, kubelet.SingleNumaNodeTopologyManagerPolicy} {
		r := rules(t, flat(2, 4), func(c *cpus.Config) { c.Topology = policy })
		s := cpus.State{"a": {"c0": cpuset.New(1, 2)}, "b": {"c0": cpuset.New(4, 5)}}
		p := guaranteed("a", "4") // its resize was refused
		if _, why := r.Place(s, p, false); why == nil {
			t.Errorf("%s: no node has 4 CPUs, and a pod gets them", policy)
		}
		if own, why := r.Place(s, p, true); why != nil || text(own) != "c0: 1-2" {
			t.Errorf("%s: a pod that runs: %s, %v", policy, text(own), why)
		}
		p = guaranteed("c", "4") // the state file was removed while it ran
		if own, why := r.Place(s, p, true); why != nil || text(own) != "" {
			t.Errorf("%s: a pod that runs without exclusive CPUs, of which there are too few: %s, %v", policy, text(own), why)
		}
		p = guaranteed("a", "2")
		p.Spec.Containers[0].Resources.Limits["example.com/gpu"] = resource.MustParse("1")
		inv := devices.Inventory{"example.com/gpu": {
			Served: true, Devices: []devices.Device{{ID: "new", Healthy: true, Nodes: []int64{0}}},
		}}
		given := devicestate.Grants{"a": {"c0": {{Resource: "example.com/gpu", IDs: map[int64][]string{0: {"old"}}}}}}
		of := devices.Place(inv, given, p, nil, r.Nodes())
		of.Keep = true
		if own, why := r.Place(s, p, true, of); why != nil || text(own) != "c0: 1-2" {
			t.Errorf("%s: a pod that runs with a device that is not listed any more: %s, %v", policy, text(own), why)
		}
	}
}

// unasked fails a test in which it is asked for hints.
type unasked struct{ t *testing.T }

func (u unasked) Hints([]*v1.Container) [][]topology.Hint {
	u.t.Error("hints are made, and nobody merges them")
	return nil
}

func (unasked) Take(*v1.Container, topology.Hint) *admit.Rejection { return nil }

// TestNoHintsForPolicyNone: there may be more than a machine can make.
func TestNoHintsForPolicyNone(t *testing.T) {
	r := rules(t, flat(2, 4), nil)
	if _, why := r.Place(cpus.State{}, guaranteed("a", "1"), false, unasked{t}); why != nil {
		t.Error(why)
	}
}
