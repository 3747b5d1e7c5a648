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
	node := &admit.Node{MaxPods: 100, Allocatable: v1.ResourceList{
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
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
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
		node := &admit.Node{MaxPods: 100, Allocatable: v1.ResourceList{
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
