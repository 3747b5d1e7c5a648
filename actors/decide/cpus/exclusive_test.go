package cpus

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/topology"
	"github.com/troupe-dev/troupe/tests/check"
)

func resources(cpu string) v1.ResourceRequirements {
	if cpu == "" {
		return v1.ResourceRequirements{}
	}
	list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("1Gi")}
	return v1.ResourceRequirements{Requests: list, Limits: list}
}

// podOf has an init container, a sidecar, another init container, and two main containers.
func podOf(own, i, s, j, a, b string) *v1.Pod {
	always := v1.ContainerRestartPolicyAlways
	p := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{
			{Name: "i", Resources: resources(i)}, {Name: "s", Resources: resources(s), RestartPolicy: &always},
			{Name: "j", Resources: resources(j)},
		},
		Containers: []v1.Container{{Name: "a", Resources: resources(a)}, {Name: "b", Resources: resources(b)}},
	}}
	if own != "" {
		r := resources(own)
		p.Spec.Resources = &r
	}
	return p
}

func TestExclusive(t *testing.T) {
	burstable := podOf("", "1", "1", "1", "2", "2")
	burstable.Spec.Containers[1].Resources.Requests = nil
	for _, c := range []struct {
		name     string
		pod      *v1.Pod
		podLevel bool
		want     string
		all      int
	}{
		{"guaranteed", podOf("", "8", "1", "3", "2", "1"), false, "8 1 3 2 1", 8},
		{"sidecars count beside init containers", podOf("", "1", "2", "9", "2", "1"), false, "1 2 9 2 1", 11},
		{"parts of CPUs", podOf("", "500m", "1500m", "2000m", "2", "100m"), false, "0 0 2 2 0", 2},
		{"burstable", burstable, false, "0 0 0 0 0", 0},
		{"own resources", podOf("8", "1", "1", "1", "2", "2"), false, "0 0 0 0 0", 0},
		{"own resources, with the gate", podOf("8", "1", "", "1", "2", ""), true, "1 0 1 2 0", 8},
		{"own parts of CPUs, with the gate", podOf("8500m", "1", "", "1", "2", ""), true, "1 0 1 2 0", 0},
	} {
		var got []int
		for _, list := range [][]v1.Container{c.pod.Spec.InitContainers, c.pod.Spec.Containers} {
			for i := range list {
				got = append(got, Exclusive(c.pod, &list[i], c.podLevel))
			}
		}
		all := ExclusiveOfPod(c.pod, c.podLevel)
		if text := fmt.Sprint(got); text != "["+c.want+"]" || all != c.all {
			t.Errorf("%s: %s, %d together, want %s, %d", c.name, text, all, c.want, c.all)
		}
	}
}

func TestReusable(t *testing.T) {
	spec := &podOf("", "1", "1", "1", "1", "1").Spec
	set := func(ids ...int) cpuset.CPUSet { return cpuset.New(ids...) }
	assigned := map[string]cpuset.CPUSet{}
	for _, step := range []struct {
		name string
		cpus cpuset.CPUSet
		want string
	}{
		{"i", set(0, 1, 2), "0-2"}, {"s", set(0), "1-2"}, {"j", set(1, 5), "1-2,5"}, {"a", set(1, 7), "2,5"}, {"b", set(2, 5), ""},
	} {
		assigned[step.name] = step.cpus
		check.Equal(t, Reusable(spec, assigned).String(), step.want, "after %s", step.name)
	}
}

func TestSplit(t *testing.T) {
	m := shape{2, 1, 1, 4, 2}.build()
	pool := cpuset.New(0, 1, 2, 8, 9, 10)
	for _, c := range []struct {
		name string
		pod  *v1.Pod
		want map[string]string
		err  string
	}{
		{"shares", podOf("6", "", "2", "", "2", ""), map[string]string{"i": "0-2,8-10", "s": "0,8", "j": "1-2,9-10", "a": "1,9", "b": "2,10"}, ""},
		{"init containers have their own", podOf("6", "4", "2", "4", "2", "2"),
			map[string]string{"i": "0-1,8-9", "s": "0,8", "j": "1-2,9-10", "a": "1,9", "b": "2,10"}, ""},
		{"nothing for a main container", podOf("6", "1", "2", "1", "4", ""), nil, "EmptyPodSharedPoolError"},
		{"nothing for an init container", podOf("6", "1", "6", "", "", ""), nil, "EmptyPodSharedPoolError"},
		{"too much", podOf("6", "1", "2", "1", "4", "1"), nil, "UnexpectedAdmissionError"},
	} {
		got, err := Split(m, c.pod, pool, Options{})
		if c.err != "" {
			if err == nil || Rejection(err).Reason != c.err {
				t.Errorf("%s: %v, %v", c.name, got, err)
			}
			continue
		}
		for name, want := range c.want {
			if err != nil || got[name].String() != want {
				t.Errorf("%s: %s has %s, want %s: %v", c.name, name, got[name], want, err)
			}
		}
	}
}

func TestReserve(t *testing.T) {
	m := shape{2, 1, 1, 4, 2}.build()
	for _, c := range []struct {
		name  string
		named cpuset.CPUSet
		milli int64
		want  string
	}{
		{"named", cpuset.New(3, 5), 500, "3,5"}, {"offline", cpuset.New(3, 99), 0, ""}, {"none", cpuset.New(), 0, ""},
		{"rounded up", cpuset.New(), 1001, "0,8"}, {"part of a CPU", cpuset.New(), 1, "0"}, {"too many", cpuset.New(), 16001, ""},
	} {
		got, err := Reserve(m, c.named, c.milli, Options{FullPCPUsOnly: true})
		if (err == nil) != (c.want != "") || got.String() != c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, got, err, c.want)
		}
	}
	for id := range m.CPUs {
		m.CPUs[id].Core = id &^ 1
	}
	if got, err := Reserve(m, cpuset.New(), 3000, Options{DistributeAcrossCores: true}); got.String() != "0-2" {
		t.Errorf("across cores: %s, %v", got, err)
	}
	reserved, exclusive := cpuset.New(0, 8), cpuset.New(1, 9)
	check.Equal(t, Shared(m, reserved, exclusive, Options{}).String(), "0,2-8,10-15", "shared")
	if got := Shared(m, reserved, exclusive, Options{StrictReservation: true}); got.String() != "2-7,10-15" {
		t.Errorf("shared strictly: %s", got)
	}
}

func TestHints(t *testing.T) {
	m := shape{2, 2, 1, 2, 2}.build() // 4 nodes of 4 CPUs: 0-1,8-9 | 2-3,10-11 | …
	for _, c := range []struct {
		name           string
		free, reusable cpuset.CPUSet
		n              int
		o              Options
		preferred, all int
		first          []int
	}{
		{"a node", m.All(), cpuset.New(), 4, Options{}, 4, 15, []int{0}},
		{"two nodes", m.All(), cpuset.New(), 5, Options{}, 6, 11, []int{0, 1}},
		{"a node that has enough", cpuset.New(0, 1, 2, 3, 10, 11), cpuset.New(), 4, Options{}, 1, 8, []int{1}},
		{"no node that has enough", cpuset.New(0, 1, 2, 3), cpuset.New(), 4, Options{}, 0, 4, []int{0, 1}},
		{"never", cpuset.New(0, 1), cpuset.New(), 4, Options{}, 0, 1, nil},
		{"to reuse", m.All().Difference(cpuset.New(0)), cpuset.New(0), 4, Options{}, 1, 8, []int{0}},
		{"sockets", m.All(), cpuset.New(), 4, Options{AlignBySocket: true}, 6, 15, []int{0}},
		{"no request", m.All(), cpuset.New(), 0, Options{}, 1, 1, nil},
	} {
		got := Hints(m, c.free, c.reusable, c.n, c.o)
		preferred := 0
		for _, h := range got {
			if h.Preferred {
				preferred++
			}
		}
		if preferred != c.preferred || len(got) != c.all || got[0].Nodes != topology.NodesOf(c.first...) {
			t.Errorf("%s: %d preferred of %d: %v", c.name, preferred, len(got), got)
		}
	}
}

// TestHintsAreTrue: with any hint as affinity, all CPUs come from its nodes.
func TestHintsAreTrue(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 3000 {
		m := drawMachine(r, true)
		free, n := some(r, m.All(), 70), 1+r.IntN(len(m.CPUs))
		for _, h := range Hints(m, free, cpuset.New(), n, Options{}) {
			if h.Nodes == 0 {
				continue
			}
			got, err := Take(m, free, n, Options{}, h.Nodes)
			for id := range count(members(m, got), node) { // order-free: each on its own
				if !h.Nodes.Has(id) {
					err = fmt.Errorf("node %d", id)
				}
			}
			if err != nil {
				t.Fatalf("seed %d, case %d: %d of %s with %v: %s, %v", seed, i, n, free, h, got, err)
			}
		}
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		names       []string
		alpha, beta bool
		ok          bool
	}{
		{nil, false, false, true},
		{[]string{fullPCPUsOnly, strictReservation, alignByCache}, false, false, true},
		{[]string{distributeAcrossNUMA}, false, false, false},
		{[]string{distributeAcrossNUMA, fullPCPUsOnly}, false, true, true},
		{[]string{alignBySocket}, false, true, false},
		{[]string{alignBySocket, distributeAcrossCores}, true, false, true},
		{[]string{fullPCPUsOnly, distributeAcrossCores}, true, true, false},
		{[]string{distributeAcrossNUMA, distributeAcrossCores}, true, true, false},
		{[]string{alignByCache, distributeAcrossCores}, true, true, false},
		{[]string{alignByCache, distributeAcrossNUMA}, true, true, false},
		{[]string{"x"}, true, true, false},
	} {
		options := map[string]string{}
		for _, name := range c.names {
			options[name] = "true"
		}
		if o, err := ParseOptions(options, c.alpha, c.beta); (err == nil) != c.ok {
			t.Errorf("%v: %+v, %v", c.names, o, err)
		}
	}
	check.Fails(t, check.Err(ParseOptions(map[string]string{fullPCPUsOnly: "often"}, true, true)), "often is no bool")
	by := Options{AlignBySocket: true}
	check.Error(t, by.Fit(shape{2, 2, 1, 1, 1}.build(), false))
	if by.Fit(shape{2, 2, 1, 1, 1}.build(), true) == nil || by.Fit(shape{2, 0, 1, 1, 1}.build(), false) == nil {
		t.Error("does not fit, and no error")
	}
}
