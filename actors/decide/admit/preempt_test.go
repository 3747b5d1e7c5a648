package admit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
)

// asking is a pod that requests so many CPUs. Of the class of limits if sure, of priority if it is not 0.
func asking(name string, cpus int64, sure bool, priority int32) *v1.Pod {
	p := &v1.Pod{}
	p.Name, p.UID = name, types.UID(name)
	q := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), v1.ResourceMemory: resource.MustParse("1Mi")}
	c := v1.Container{Name: "app"}
	if cpus > 0 {
		c.Resources.Requests = q
	}
	if sure {
		c.Resources.Limits = q
	}
	p.Spec.Containers = []v1.Container{c}
	if priority != 0 {
		p.Spec.Priority = &priority
	}
	return p
}

const critical = podspec.SystemCritical

func preempted(pod *v1.Pod, cpus int64, others []*v1.Pod, leaving ...string) ([]string, bool) {
	node := &admit.Node{Allocatable: v1.ResourceList{
		v1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), v1.ResourceMemory: resource.MustParse("1Gi"),
	}}
	victims, short, ok := admit.Preempt(pod, others, func(p *v1.Pod) bool { return slices.Contains(leaving, p.Name) },
		func(o []*v1.Pod) *admit.Rejection { return admit.Check(pod, o, node) })
	if ok != (short == v1.ResourceCPU) { // the only one that is ever short here
		return []string{"short of " + string(short)}, ok
	}
	var names []string
	for _, v := range victims {
		names = append(names, v.Name)
	}
	slices.Sort(names)
	return names, ok
}

func TestPreempt(t *testing.T) {
	burst, sure := asking("burst", 2, false, 0), asking("sure", 2, true, 0)
	low, high := asking("low", 2, false, -5), asking("high", 2, false, 7)
	older, younger, big := asking("older", 1, false, 0), asking("younger", 1, false, 0), asking("big", 3, false, 0)
	heavy := asking("heavy", 3, false, 0)
	heavy.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = resource.MustParse("2Mi")
	vital, system := asking("vital", 2, false, critical), asking("system", 2, false, critical+1000)
	for _, c := range []struct {
		what    string
		pod     *v1.Pod
		cpus    int64
		others  []*v1.Pod
		leaving []string
		want    string
	}{
		{"it fits", asking("new", 2, false, critical), 4, []*v1.Pod{burst}, nil, "no"},
		{"it is not critical", asking("new", 2, false, critical-1), 2, []*v1.Pod{burst}, nil, "no"},
		{"guaranteed stays", asking("new", 2, false, critical), 4, []*v1.Pod{burst, sure}, nil, "burst"},
		{"the lowest goes", asking("new", 2, false, critical), 6, []*v1.Pod{low, high, burst}, nil, "low"},
		{"two are needed", asking("new", 4, false, critical), 6, []*v1.Pod{low, high, burst}, nil, "burst low"},
		{"one instead of three", asking("new", 3, false, critical), 5, []*v1.Pod{older, younger, big}, nil, "big"},
		{"also if it is the oldest", asking("new", 3, false, critical), 7, []*v1.Pod{big, older, younger, burst}, nil, "big"},
		{"the smallest that is enough", asking("new", 1, false, critical), 6, []*v1.Pod{older, burst, big}, nil, "older"},
		{"the one with less memory", asking("new", 3, false, critical), 7, []*v1.Pod{big, heavy, older}, nil, "big"},
		{"the younger one", asking("new", 1, false, critical), 2, []*v1.Pod{older, younger}, nil, "younger"},
		{"two low ones before a higher one", asking("new", 2, false, critical), 6,
			[]*v1.Pod{asking("high", 4, false, 7), older, younger}, nil, "older younger"},
		{"none in vain beside a higher one", asking("new", 4, false, critical), 6,
			[]*v1.Pod{asking("high", 4, false, 7), older, younger}, nil, "high"},
		{"critical ones stay", asking("new", 2, false, critical), 2, []*v1.Pod{vital}, nil, "no"},
		{"but for a higher one", asking("new", 2, false, critical+1000), 2, []*v1.Pod{vital}, nil, "vital"},
		{"not for an equal one", asking("new", 2, false, critical+1000), 2, []*v1.Pod{system}, nil, "no"},
		{"not even all are enough", asking("new", 8, false, critical), 6, []*v1.Pod{low, high, burst}, nil, "no"},
		{"one is leaving", asking("new", 2, false, critical), 4, []*v1.Pod{low, high}, []string{"high"}, ""},
		{"one more than those that leave", asking("new", 4, false, critical), 4, []*v1.Pod{low, high}, []string{"high"}, "low"},
	} {
		names, ok := preempted(c.pod, c.cpus, c.others, c.leaving...)
		got := strings.Join(names, " ")
		if !ok {
			got = "no"
		}
		check.Equal(t, got, c.want, "%s", c.what)
	}
}

// TestPreemptLooksAtAllRules: what goes is enough for the other rules too, here for a port of the host.
func TestPreemptLooksAtAllRules(t *testing.T) {
	with := func(name string) *v1.Pod {
		p := asking(name, 2, false, 0)
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
		return p
	}
	pod := with("new")
	pod.Spec.Priority = new(int32(critical))
	for _, others := range [][]*v1.Pod{
		{with("port"), asking("other", 2, false, 0)},
		{asking("other", 2, false, 0), with("port")},
	} {
		if got, ok := preempted(pod, 4, others); !ok || !slices.Equal(got, []string{"port"}) {
			t.Errorf("%v go, %v", got, ok)
		}
	}
}

// TestShort: a rejection says how much of each resource is short, not only of its reason.
func TestShort(t *testing.T) {
	node := &admit.Node{Allocatable: v1.ResourceList{
		v1.ResourcePods: resource.MustParse("1"),
		v1.ResourceCPU:  resource.MustParse("3"), v1.ResourceMemory: resource.MustParse("8Mi"),
	}}
	no := admit.Check(asking("new", 4, false, 0), []*v1.Pod{asking("other", 1, false, 0)}, node)
	want := v1.ResourceList{v1.ResourcePods: resource.MustParse("1"), v1.ResourceCPU: resource.MustParse("2")}
	if no == nil || no.Reason != "OutOfpods" || !podspec.SameResources(no.Short, want) {
		t.Errorf("%+v, want it short of %v", no, podspec.ResourceText(want))
	}
}

// TestPreemptTakesTheFewest: no other set has fewer pods of the highest class and priority, or as many that are
// smaller; and with the same number and size there, the same is true of the next lower class and priority, and so on.
func TestPreemptTakesTheFewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, priority int32, what string) *v1.Pod {
			p := asking(name, rapid.Int64Range(0, 4).Draw(t, what+" cpus"), rapid.Bool().Draw(t, what+" sure"), priority)
			if len(p.Spec.Containers[0].Resources.Requests) > 0 {
				q := resource.NewQuantity(rapid.Int64Range(1, 4).Draw(t, what+" memory")<<20, resource.BinarySI)
				p.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = *q
			}
			return p
		}
		var others []*v1.Pod
		for i := range rapid.IntRange(1, 7).Draw(t, "others") {
			priority := rapid.SampledFrom([]int32{0, 0, 7, critical}).Draw(t, "priority")
			others = append(others, draw(fmt.Sprint(i), priority, "other"))
		}
		pod := draw("new", rapid.SampledFrom([]int32{critical, critical + 1}).Draw(t, "priority"), "new")
		node := &admit.Node{Allocatable: v1.ResourceList{
			v1.ResourcePods:   *resource.NewQuantity(rapid.Int64Range(1, 8).Draw(t, "pods"), resource.DecimalSI),
			v1.ResourceCPU:    *resource.NewQuantity(rapid.Int64Range(0, 12).Draw(t, "node cpus"), resource.DecimalSI),
			v1.ResourceMemory: *resource.NewQuantity(rapid.Int64Range(0, 12).Draw(t, "node memory")<<20, resource.BinarySI),
		}}
		check := func(o []*v1.Pod) *admit.Rejection { return admit.Check(pod, o, node) }
		victims, _, ok := admit.Preempt(pod, others, func(*v1.Pod) bool { return false }, check)
		if why := check(others); ok && why == nil || ok && !admit.OutOf(why) {
			t.Fatalf("preempts although %v", why)
		} else if why == nil {
			return
		}
		got := cost(others, victims)
		possible := false
		for set := range 1 << len(others) {
			var gone, stay []*v1.Pod
			for i, o := range others {
				if set>>i&1 == 1 {
					gone = append(gone, o)
				} else {
					stay = append(stay, o)
				}
			}
			fair := !slices.ContainsFunc(gone, func(o *v1.Pod) bool {
				return podspec.Critical(o) && podspec.Priority(o) >= podspec.Priority(pod)
			})
			if !fair || check(stay) != nil {
				continue
			}
			possible = true
			if other := cost(others, gone); ok && slices.Compare(other, got) < 0 {
				t.Fatalf("%v go (cost %v), but %v is enough (%v)", names(victims), got, names(gone), other)
			}
		}
		if possible != ok {
			t.Fatalf("preempts: %v, although there is a set that is enough: %v", ok, possible)
		}
	})
}

// cost is how many pods go of each class and priority, the highest first, and how much memory and CPU they request.
func cost(all, gone []*v1.Pod) (cost []int64) {
	group := func(p *v1.Pod) [2]int64 {
		class := map[v1.PodQOSClass]int64{v1.PodQOSGuaranteed: 2, v1.PodQOSBurstable: 1}[podspec.Class(p)]
		return [2]int64{class, int64(podspec.Priority(p))}
	}
	var groups [][2]int64
	for _, p := range all {
		groups = append(groups, group(p))
	}
	slices.SortFunc(groups, func(a, b [2]int64) int { return slices.Compare(b[:], a[:]) })
	for _, g := range slices.Compact(groups) {
		var n, memory, cpu int64
		for _, p := range gone {
			if group(p) == g {
				r := podspec.Requests(p)
				n, memory, cpu = n+1, memory+r.Memory().Value(), cpu+r.Cpu().MilliValue()
			}
		}
		cost = append(cost, n, memory, cpu)
	}
	return cost
}

func names(pods []*v1.Pod) (names []string) {
	for _, p := range pods {
		names = append(names, p.Name)
	}
	return names
}

// TestPreemptIsQuick: the search ends on the largest nodes too, with a set of which no pod goes without need.
func TestPreemptIsQuick(t *testing.T) {
	var others []*v1.Pod
	for i := range 250 {
		p := asking(fmt.Sprint(i), int64(1+i*7%5), false, 0)
		p.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = *resource.NewQuantity(int64(1+i*11%13)<<20, resource.BinarySI)
		others = append(others, p)
	}
	pod := asking("new", 60, false, critical)
	pod.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = resource.MustParse("150Mi")
	sum := v1.ResourceList{}
	for _, p := range others {
		podspec.AddResources(sum, podspec.Requests(p))
	}
	node, checks := &admit.Node{Allocatable: sum}, 0
	victims, _, ok := admit.Preempt(pod, others, func(*v1.Pod) bool { return false }, func(o []*v1.Pod) *admit.Rejection {
		checks++
		return admit.Check(pod, o, node)
	})
	if !ok || checks > 500 {
		t.Fatalf("%v with %d checks", ok, checks)
	}
	for _, v := range victims {
		stay := slices.DeleteFunc(slices.Clone(others), func(o *v1.Pod) bool { return o != v && slices.Contains(victims, o) })
		if admit.Check(pod, stay, node) == nil {
			t.Errorf("%s goes without need", v.Name)
		}
	}
	t.Logf("%d victims, %d checks", len(victims), checks)
}

// TestPreemptIsEnoughAndNoMore: the pod fits when the victims are gone, and not if one of them stays. None of them
// is as important.
func TestPreemptIsEnoughAndNoMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var others []*v1.Pod
		priorities := []int32{0, -5, 7, critical, critical + 1000}
		for i := range rapid.IntRange(0, 8).Draw(t, "others") {
			others = append(others, asking(fmt.Sprint(i), rapid.Int64Range(0, 4).Draw(t, "cpus"),
				rapid.Bool().Draw(t, "sure"), rapid.SampledFrom(priorities).Draw(t, "priority")))
		}
		pod := asking("new", rapid.Int64Range(0, 8).Draw(t, "cpus"), false, rapid.SampledFrom(priorities).Draw(t, "priority"))
		cpus := rapid.Int64Range(1, 16).Draw(t, "node")
		victims, ok := preempted(pod, cpus, others)
		if !ok {
			return
		}
		without := func(but string) []*v1.Pod {
			return slices.DeleteFunc(slices.Clone(others), func(p *v1.Pod) bool {
				return p.Name != but && slices.Contains(victims, p.Name)
			})
		}
		node := &admit.Node{Allocatable: v1.ResourceList{
			v1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), v1.ResourceMemory: resource.MustParse("1Gi"),
		}}
		if why := admit.Check(pod, without(""), node); why != nil {
			t.Fatalf("without %v: %s", victims, why.Message)
		}
		for _, v := range victims {
			if admit.Check(pod, without(v), node) == nil {
				t.Fatalf("%s of %v goes without need", v, victims)
			}
			for _, o := range others {
				if o.Name == v && podspec.Critical(o) && podspec.Priority(o) >= podspec.Priority(pod) {
					t.Fatalf("%s is as important", v)
				}
			}
		}
	})
}
