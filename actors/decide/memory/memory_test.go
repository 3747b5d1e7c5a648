package memory_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/memory"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/topology"
	"github.com/troupe-dev/troupe/tests/check"
)

const mi = 1 << 20

func list(texts ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for _, text := range texts {
		name, q, _ := strings.Cut(text, "=")
		out[v1.ResourceName(name)] = resource.MustParse(q)
	}
	return out
}

// config is that of a machine with so many nodes of 1000 MiB and 50 huge pages of 2 MiB each, of which 100 MiB of the
// first are reserved: 800 MiB of node 0 and 900 MiB of the others are allocatable.
func config(nodes int) memory.Config {
	c := memory.Config{
		Machine: &topology.Machine{}, Policy: kubelet.StaticMemoryManagerPolicy,
		Reserved: []kubelet.MemoryReservation{{NumaNode: 0, Limits: list("memory=100Mi")}}, Reservation: list("memory=100Mi", "cpu=1"),
	}
	for id := range nodes {
		c.Machine.Nodes = append(c.Machine.Nodes, topology.Node{ID: id, Memory: 1000 * mi, HugePages: map[uint64]uint64{2 * mi: 50}})
	}
	return c
}

func rules(t *testing.T, c memory.Config) *memory.Rules {
	t.Helper()
	return check.Value(memory.New(c))(t)
}

// pod is a Guaranteed one with containers that ask for such memory, as "500" (MiB), "init 500", "sidecar 500", or
// "500 pages 10".
func pod(uid string, requests ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)}, Status: v1.PodStatus{QOSClass: v1.PodQOSGuaranteed}}
	always := v1.ContainerRestartPolicyAlways
	for i, text := range requests {
		text, init := strings.CutPrefix(text, "init ")
		text, sidecar := strings.CutPrefix(text, "sidecar ")
		text, pages, paged := strings.Cut(text, " pages ")
		r := list("cpu=100m", "memory="+text+"Mi")
		if paged {
			r["hugepages-2Mi"] = resource.MustParse(pages + "Mi")
		}
		c := v1.Container{Name: fmt.Sprint("c", i), Resources: v1.ResourceRequirements{Requests: r, Limits: r}}
		switch {
		case sidecar:
			c.RestartPolicy = &always
			fallthrough
		case init:
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		default:
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
	}
	return p
}

// place gives all containers their memory, with some affinity for each.
func place(r *memory.Rules, s memory.State, p *v1.Pod, affinity topology.Hint) (map[string][]memory.Block, error) {
	placing := r.Place(s, p, false)
	for c := range podspec.Lasting(&p.Spec) {
		if why := placing.Take(c, affinity); why != nil {
			return nil, fmt.Errorf("%s: %s", why.Reason, why.Message)
		}
	}
	return placing.Own(), nil
}

func text(own map[string][]memory.Block) string {
	var out []string
	for i := range 8 {
		for _, b := range own[fmt.Sprint("c", i)] {
			kind := ""
			if b.Type != v1.ResourceMemory {
				kind = " " + string(b.Type)
			}
			out = append(out, fmt.Sprintf("c%d: %d%s from %s", i, b.Size/mi, kind, memory.Mems(b.Nodes)))
		}
	}
	return strings.Join(out, "; ")
}

func TestPlace(t *testing.T) {
	both, one := topology.NodesOf(0, 1), topology.NodesOf(1)
	for _, c := range []struct {
		name       string
		had        []*v1.Pod
		pod        *v1.Pod
		affinity   topology.Hint
		restricted bool
		want       string
	}{
		{name: "the first node that has enough", pod: pod("a", "500"), want: "c0: 500 from 0"},
		{name: "the next one", pod: pod("a", "850"), want: "c0: 850 from 1"},
		{name: "two containers", pod: pod("a", "500", "500"), want: "c0: 500 from 0; c1: 500 from 1"},
		{name: "more than a node has", pod: pod("a", "1500"), want: "c0: 1500 from 0-1"},
		{name: "huge pages from the same node", pod: pod("a", "10 pages 80"), want: "c0: 80 hugepages-2Mi from 0; c0: 10 from 0"},
		{name: "huge pages from two nodes", pod: pod("a", "10 pages 150"), want: "c0: 150 hugepages-2Mi from 0-1; c0: 10 from 0-1"},
		{name: "affinity", pod: pod("a", "500"), affinity: topology.Hint{Nodes: one, Preferred: true}, want: "c0: 500 from 1"},
		{name: "affinity to more than it needs", pod: pod("a", "500"), affinity: topology.Hint{Nodes: both, Preferred: true}, want: "c0: 500 from 0-1"},
		{name: "affinity that is too small", pod: pod("a", "1500"), affinity: topology.Hint{Nodes: one}, want: "c0: 1500 from 0-1"},
		{
			name: "preferred affinity that has too little left", had: []*v1.Pod{pod("b", "500")}, pod: pod("a", "500"),
			affinity: topology.Hint{Nodes: topology.NodesOf(0), Preferred: true}, want: "too little memory left; 1 have enough",
		},
		{
			name: "affinity that has too little left", had: []*v1.Pod{pod("b", "500")}, pod: pod("a", "500"),
			affinity: topology.Hint{Nodes: topology.NodesOf(0)}, want: "c0: 500 from 1",
		},
		{name: "a group is not for one", had: []*v1.Pod{pod("b", "1500")}, pod: pod("a", "100"), want: "c0: 100 from 0-1"},
		{name: "one is not for a group", had: []*v1.Pod{pod("b", "100")}, pod: pod("a", "1500"), want: "no NUMA nodes have enough"},
		{name: "a group from more than it needs", had: []*v1.Pod{pod("b", "1500")}, pod: pod("a", "100"), restricted: true, want: "too little memory left"},
		{name: "too much", pod: pod("a", "1800"), want: "no NUMA nodes have enough"},
		{name: "init containers leave theirs", pod: pod("a", "init 500", "300", "100"), want: "c0: 100 from 0; c1: 300 from 0; c2: 100 from 0"},
		{name: "more than they leave", pod: pod("a", "init 500", "700"), want: "c0: 0 from 0; c1: 700 from 0"},
		{name: "sidecars keep theirs", pod: pod("a", "sidecar 500", "500"), want: "c0: 500 from 0; c1: 500 from 1"},
		{name: "what it has stays", had: []*v1.Pod{pod("a", "850")}, pod: pod("a", "850"), want: "c0: 850 from 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := config(2)
			if c.restricted {
				config.Policy = memory.Restricted
			}
			r, s := rules(t, config), memory.State{}
			for _, p := range c.had {
				own := check.Value(place(rules(t, configOf(config, kubelet.StaticMemoryManagerPolicy)), s, p, topology.Hint{}))(t)
				s[p.UID] = own
			}
			got, err := place(r, s, c.pod, c.affinity)
			if err != nil {
				if !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "UnexpectedAdmissionError: ") {
					t.Errorf("%v; want %s", err, c.want)
				}
				return
			}
			check.Equal(t, text(got), c.want, "it")
			s[c.pod.UID] = got
			check.Error(t, check.Err(r.Count(s)))
		})
	}
}

func configOf(c memory.Config, policy string) memory.Config {
	c.Policy = policy
	return c
}

// TestWhoHasMemory: only Guaranteed pods have memory of their own, and none that has resources itself.
func TestWhoHasMemory(t *testing.T) {
	burstable, itself := pod("a", "500"), pod("a", "500")
	burstable.Status.QOSClass = v1.PodQOSBurstable
	itself.Spec.Resources = &v1.ResourceRequirements{Requests: list("memory=1Gi")}
	r := rules(t, config(2))
	for _, p := range []*v1.Pod{burstable, itself} {
		placing := r.Place(memory.State{}, p, false)
		if hints := placing.Hints([]*v1.Container{&p.Spec.Containers[0]}); hints != nil {
			t.Errorf("hints %v", hints)
		}
		if own, err := place(r, memory.State{}, p, topology.Hint{}); err != nil || len(own) > 0 {
			t.Errorf("%s, %v", text(own), err)
		}
	}
}

func TestHints(t *testing.T) {
	show := func(lists [][]topology.Hint) string {
		var out []string
		for _, hints := range lists {
			var list []string
			for _, h := range hints {
				list = append(list, fmt.Sprintf("%s %v", memory.Mems(h.Nodes), h.Preferred))
			}
			out = append(out, strings.Join(list, ", "))
		}
		return strings.Join(out, "; ")
	}
	for _, c := range []struct {
		name string
		had  []*v1.Pod
		pod  *v1.Pod
		whom string // the whole pod, or the first container
		want string
	}{
		{name: "any node", pod: pod("a", "500"), want: "0 true, 1 true, 0-1 false"},
		{name: "both", pod: pod("a", "1500"), want: "0-1 true"},
		{name: "what one node could have", had: []*v1.Pod{pod("b", "700"), pod("c", "700")}, pod: pod("a", "850"), want: " true"},
		{name: "in a group", had: []*v1.Pod{pod("b", "1500")}, pod: pod("a", "100"), want: "0-1 false"},
		{name: "of two kinds", pod: pod("a", "10 pages 10"), want: "0 true, 1 true, 0-1 false; 0 true, 1 true, 0-1 false"},
		{name: "the first container", pod: pod("a", "500", "500"), want: "0 true, 1 true, 0-1 false"},
		{name: "the pod", pod: pod("a", "500", "500"), whom: "pod", want: "0-1 true"},
		{name: "the pod with an init container", pod: pod("a", "init 900", "500"), whom: "pod", want: "1 true, 0-1 false"},
		{name: "what it has", had: []*v1.Pod{pod("a", "850")}, pod: pod("a", "850"), want: "1 true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, s := rules(t, config(2)), memory.State{}
			for _, p := range c.had {
				own := check.Value(place(r, s, p, topology.Hint{}))(t)
				s[p.UID] = own
			}
			scope := kubelet.ContainerTopologyManagerScope
			if c.whom != "" {
				scope = kubelet.PodTopologyManagerScope
			}
			group := topology.Groups(scope, &c.pod.Spec)[0]
			check.Equal(t, show(r.Place(s, c.pod, false).Hints(group)), c.want, "it")
			if len(c.had) > 0 && c.had[0].UID == c.pod.UID {
				check.Equal(t, show(r.Place(s, c.pod, true).Hints(group)), " true", "a pod that runs")
			}
		})
	}
}

func TestNew(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*memory.Config)
		want   string
	}{
		{"no node", func(c *memory.Config) { c.Reserved[0].NumaNode = 2 }, "this machine has no NUMA node 2: it has 0, 1"},
		{"too little", func(c *memory.Config) { c.Reservation = list("memory=200Mi") }, "it reserves 100Mi of memory on all NUMA nodes, and must reserve 200Mi"},
		{"nothing", func(c *memory.Config) { c.Reserved, c.Reservation = nil, nil }, "it must reserve some memory"},
		{
			"huge pages that are not kept from pods",
			func(c *memory.Config) { c.Reserved[0].Limits = list("memory=100Mi", "hugepages-2Mi=10Mi") },
			"it reserves 10Mi of hugepages-2Mi on all NUMA nodes, and must reserve 0",
		},
		{
			"huge pages that are not reserved", func(c *memory.Config) { c.Reservation = list("memory=100Mi", "hugepages-2Mi=10Mi") },
			"it reserves 0 of hugepages-2Mi on all NUMA nodes, and must reserve 10Mi",
		},
		{
			"pages that no node has",
			func(c *memory.Config) {
				c.Reserved[0].Limits = list("memory=100Mi", "hugepages-1Gi=1Gi")
				c.Reservation = list("memory=100Mi", "hugepages-1Gi=1Gi")
			},
			"NUMA node 0 has no hugepages-1Gi",
		},
		{
			"more than a node has",
			func(c *memory.Config) {
				c.Reserved[0].Limits, c.Reservation = list("memory=950Mi"), list("memory=950Mi")
			},
			"NUMA node 0 has 1000Mi of memory, and 1050Mi are reserved or in huge pages",
		},
		{
			"many nodes", func(c *memory.Config) { c.Machine = config(17).Machine }, "17 NUMA nodes have memory, and at most 16",
		},
		{
			"a high node",
			func(c *memory.Config) {
				c.Machine.Nodes = append(c.Machine.Nodes, topology.Node{ID: 64, Memory: 1000 * mi})
			},
			"NUMA node 64: only 0 to 63 are supported",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := config(2)
			c.change(&config)
			check.Says(t, check.Err(memory.New(config)), c.want, "the error")
		})
	}
	if r, err := memory.New(memory.Config{Policy: kubelet.NoneMemoryManagerPolicy}); r != nil || err != nil {
		t.Errorf("policy None: %v, %v", r, err)
	}
	got := ""
	for _, b := range rules(t, config(2)).Allocatable() {
		got += fmt.Sprintf("%s %s %d; ", memory.Mems(b.Nodes), b.Type, b.Size/mi)
	}
	check.Equal(t, got, "0 hugepages-2Mi 100; 0 memory 800; 1 hugepages-2Mi 100; 1 memory 900; ", "allocatable")
}

// TestCount: an agent goes on with what containers have if it is there.
func TestCount(t *testing.T) {
	r := rules(t, config(2))
	block := func(size uint64, name v1.ResourceName, nodes ...int) memory.State {
		return memory.State{"a": {"c": {{Nodes: topology.NodesOf(nodes...), Type: name, Size: size}}}}
	}
	for _, c := range []struct {
		name string
		s    memory.State
		want string
	}{
		{"no such node", block(1, "memory", 0, 2), `pod a, container "c": this machine has no NUMA node 2`},
		{"no such memory", block(1, "hugepages-1Gi", 0), "NUMA node 0 has no hugepages-1Gi"},
		{"too much", block(1000*mi, "memory", 0), "1000Mi of memory on the NUMA nodes 0 are more than there is"},
		{
			"two groups", memory.State{"a": block(1, "memory", 0)["a"], "b": block(1, "memory", 0, 1)["a"]},
			"it has memory of the NUMA nodes 0-1, and others have some of 0",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			check.Says(t, check.Err(r.Count(c.s)), c.want, "the error")
		})
	}
	for _, s := range []memory.State{nil, block(800*mi, "memory", 0)} {
		check.Error(t, check.Err(r.Count(s)))
	}
}

// TestNoPageTwice: pods come and go in any order. No node gives more than it has, no group is crossed, and when all pods
// are gone, all is free. What a pod asks for and does not get is not there.
func TestNoPageTwice(t *testing.T) {
	placed, refused := 0, 0
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 14))
		r := rules(t, config(1+random.IntN(4)))
		s := memory.State{}
		for step := range 100 {
			var requests []string
			for range 1 + random.IntN(3) {
				size := []int{50, 100, 300, 700, 1200}[random.IntN(5)]
				requests = append(requests, []string{"", "init ", "sidecar "}[random.IntN(3)]+fmt.Sprint(size))
			}
			p := pod(fmt.Sprint("p", step), append(requests, "50 pages 20")...)
			affinity := topology.Hint{}
			if hints := r.Place(s, p, false).Hints(topology.Groups(kubelet.PodTopologyManagerScope, &p.Spec)[0]); random.IntN(2) == 0 {
				affinity = hints[0][random.IntN(len(hints[0]))]
			}
			own, err := place(r, s, p, affinity)
			if err == nil {
				s[p.UID] = own
				placed++
			} else {
				refused++
			}
			if _, err := r.Count(s); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			if got := sum(own); err == nil && got != most(p) && affinity == (topology.Hint{}) && same(own) {
				t.Fatalf("seed %d, step %d: the pod has %d MiB, and needs %d: %s", seed, step, got/mi, most(p)/mi, text(own))
			}
			if random.IntN(3) > 0 || err != nil {
				for uid := range s {
					delete(s, uid)
					break
				}
			}
		}
	}
	if placed < 2000 || refused < 500 {
		t.Errorf("%d pods were placed and %d refused: too few to say anything", placed, refused)
	}
}

// sum is all memory of a pod.
func sum(own map[string][]memory.Block) (n uint64) {
	for _, blocks := range own {
		for _, b := range blocks {
			if b.Type == v1.ResourceMemory {
				n += b.Size
			}
		}
	}
	return n
}

// same says whether all containers have their memory from the same nodes: then nothing of init containers is left over.
func same(own map[string][]memory.Block) bool {
	var all []topology.Nodes
	for _, blocks := range own {
		all = append(all, memory.NodesOf(blocks))
	}
	slices.Sort(all)
	return len(slices.Compact(all)) == 1
}

// most is what a pod needs at most at any time; an init container does not share with the one before it.
func most(p *v1.Pod) uint64 {
	running, peak := uint64(0), uint64(0)
	for c, kind := range podspec.Lasting(&p.Spec) {
		n := uint64(c.Resources.Requests.Memory().Value())
		if kind == podspec.Init {
			peak = max(peak, running+n)
		} else {
			running += n
		}
	}
	return max(running, peak)
}
