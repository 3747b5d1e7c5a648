package podresize_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// size is quota/memory; 0 is no limit.
func size(quota, memory int64) observed.Resources {
	r := observed.Resources{CPUShares: 2, CPUQuota: quota, Memory: memory}
	if quota != 0 {
		r.CPUPeriod = 100
	}
	return r
}

func text(s podresize.Step) string {
	short := func(r observed.Resources) string { return fmt.Sprintf("%d/%d", r.CPUQuota, r.Memory) }
	switch s := s.(type) {
	case podresize.Done:
		return "done"
	case podresize.Wait:
		return "wait"
	case podresize.Look:
		return strings.TrimSpace("look " + strings.Join(s.IDs, " "))
	case podresize.SetPod:
		return "pod " + short(s.To)
	case podresize.Update:
		return s.Name + " " + short(s.To)
	case podresize.Blocked:
		return fmt.Sprintf("blocked until +%v: %s", s.Again.Sub(noon), s.Message)
	default:
		panic("no such step")
	}
}

func TestNext(t *testing.T) {
	a := func(have, want observed.Resources) podresize.Container {
		return podresize.Container{Name: "a", ID: "a0", Have: have, Want: want}
	}
	b := func(have, want observed.Resources) podresize.Container {
		return podresize.Container{Name: "b", ID: "b0", Have: have, Want: want}
	}
	seen := func(pod observed.Resources, usage int64, ago time.Duration) *podresize.Seen {
		return &podresize.Seen{At: noon.Add(-ago), Pod: pod, Usage: usage, Containers: map[string]int64{"a0": usage, "b0": usage}}
	}
	for _, c := range []struct {
		name string
		in   podresize.Input
		want string
	}{
		{"nothing known", podresize.Input{Own: true, Want: size(100, 64)}, "look"},
		{"no cgroup of its own, nothing to do", podresize.Input{Containers: []podresize.Container{a(size(1, 1), size(1, 1))}}, "done"},
		{"no cgroup of its own", podresize.Input{Containers: []podresize.Container{a(size(1, 1), size(2, 2))}}, "a 2/2"},
		{"all as it is to be", podresize.Input{Own: true, Want: size(1, 1), Seen: seen(size(1, 1), 9, time.Hour)}, "done"},
		{"pod first when it grows", podresize.Input{Own: true, Want: size(200, 64), Seen: seen(size(100, 32), 9, 0),
			Containers: []podresize.Container{a(size(100, 32), size(200, 64))}}, "pod 200/64"},
		{"then its container", podresize.Input{Own: true, Want: size(200, 64), Seen: seen(size(200, 64), 9, 0),
			Containers: []podresize.Container{a(size(100, 32), size(200, 64))}}, "a 200/64"},
		{"container first when it shrinks", podresize.Input{Own: true, Want: size(100, 32), Seen: seen(size(200, 64), 9, 0),
			Containers: []podresize.Container{a(size(200, 64), size(100, 32))}}, "a 100/32"},
		{"then its pod", podresize.Input{Own: true, Want: size(100, 32), Seen: seen(size(200, 64), 9, 0),
			Containers: []podresize.Container{a(size(100, 32), size(100, 32))}}, "pod 100/32"},
		{"one takes from the other", podresize.Input{Own: true, Want: size(200, 64), Seen: seen(size(200, 64), 9, 0),
			Containers: []podresize.Container{a(size(100, 32), size(150, 48)), b(size(100, 32), size(50, 16))}}, "b 50/16"},
		{"one resource up, the other down: the pod has the most of both", podresize.Input{Own: true, Want: size(200, 32), Seen: seen(size(100, 64), 9, 0),
			Containers: []podresize.Container{a(size(100, 64), size(200, 32))}}, "pod 200/64"},
		{"then the container the least of both", podresize.Input{Own: true, Want: size(200, 32), Seen: seen(size(200, 64), 9, 0),
			Containers: []podresize.Container{a(size(100, 64), size(200, 32))}}, "a 100/32"},
		{"a limit where there was none", podresize.Input{Own: true, Want: size(0, 0), Seen: seen(size(0, 0), 9, 0),
			Containers: []podresize.Container{a(size(0, 0), size(100, 32))}}, "a 100/32"},
		{"more than the limit is in use", podresize.Input{Own: true, Want: size(0, 32), Seen: seen(size(0, 64), 40, 0),
			Containers: []podresize.Container{a(size(0, 64), size(0, 32))}},
			`blocked until +10s: cannot decrease memory limits: [attempting to set pod memory limit (32) below current usage (40), attempting to set container "a" memory limit (32) below current usage (40)]`},
		{"more than the limit is in use, and something is to grow: that first", podresize.Input{Own: true, Want: size(200, 32), Seen: seen(size(100, 64), 40, 0),
			Containers: []podresize.Container{a(size(100, 64), size(200, 32))}}, "pod 200/64"},
		{"more than the limit is in use, and the pod has grown", podresize.Input{Own: true, Want: size(200, 64), Seen: seen(size(200, 64), 40, 0),
			Containers: []podresize.Container{a(size(100, 64), size(200, 32))}},
			`blocked until +10s: cannot decrease memory limits: attempting to set container "a" memory limit (32) below current usage (40)`},
		{"more than the limit was in use a while ago", podresize.Input{Own: true, Want: size(0, 32), Seen: seen(size(0, 64), 40, 10*time.Second),
			Containers: []podresize.Container{a(size(0, 64), size(0, 32))}}, "look a0"},
		{"the look was not at this container", podresize.Input{Own: true, Want: size(0, 64), Seen: &podresize.Seen{At: noon, Pod: size(0, 64)},
			Containers: []podresize.Container{a(size(0, 64), size(0, 32))}}, "look a0"},
		{"the clock was set back", podresize.Input{Own: true, Want: size(0, 32), Seen: seen(size(0, 64), 9, -time.Hour)}, "look"},
		{"no look is needed for more", podresize.Input{Own: true, Want: size(0, 64), Seen: seen(size(0, 64), 40, time.Hour),
			Containers: []podresize.Container{a(size(0, 32), size(0, 64))}}, "a 0/64"},
		{"a container is being restarted for less", podresize.Input{Own: true, Want: size(50, 0), Seen: seen(size(100, 0), 9, 0), Restarting: true}, "wait"},
		{"a container is being restarted for more", podresize.Input{Own: true, Want: size(150, 0), Seen: seen(size(100, 0), 9, 0), Restarting: true}, "pod 150/0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.in.Now = noon
			check.Equal(t, text(podresize.Next(c.in)), c.want, "got")
		})
	}
}

// TestSteps: from any state the steps come to an end, at no time do the containers
// of a pod together get more than the pod if they did not before and are not to
// after, and an agent that forgets all in between comes to the same end.
func TestSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 20)
		n := rapid.IntRange(1, 4).Draw(t, "containers")
		in := podresize.Input{Now: noon, Own: rapid.Bool().Draw(t, "own")}
		var have, want observed.Resources
		for i := range n {
			c := podresize.Container{
				Name: string(rune('a' + i)), ID: string(rune('a'+i)) + "0",
				Have: size(limit.Draw(t, "quota"), limit.Draw(t, "memory")), Want: size(limit.Draw(t, "quota"), limit.Draw(t, "memory")),
			}
			in.Containers = append(in.Containers, c)
			have.CPUQuota, have.Memory = have.CPUQuota+c.Have.CPUQuota, have.Memory+c.Have.Memory
			want.CPUQuota, want.Memory = want.CPUQuota+c.Want.CPUQuota, want.Memory+c.Want.Memory
		}
		pod := size(have.CPUQuota+rapid.Int64Range(0, 3).Draw(t, "spare"), have.Memory)
		in.Want = size(want.CPUQuota, want.Memory+rapid.Int64Range(0, 3).Draw(t, "spare"))
		for range 100 {
			var sum observed.Resources
			for _, c := range in.Containers {
				sum.CPUQuota, sum.Memory = sum.CPUQuota+c.Have.CPUQuota, sum.Memory+c.Have.Memory
			}
			if in.Own && (sum.CPUQuota > pod.CPUQuota || sum.Memory > pod.Memory) {
				t.Fatalf("the containers have %v, the pod %v", sum, pod)
			}
			if rapid.IntRange(0, 9).Draw(t, "forgets") == 0 {
				in.Seen = nil
			}
			step := podresize.Next(in)
			if again := podresize.Next(in); text(again) != text(step) {
				t.Fatalf("%s, and then %s", text(step), text(again))
			}
			lost := rapid.IntRange(0, 9).Draw(t, "lost") == 0 // it is not done at all
			switch s := step.(type) {
			case podresize.Done:
				if in.Own && pod != in.Want {
					t.Fatalf("done, and the pod has %v instead of %v", pod, in.Want)
				}
				for _, c := range in.Containers {
					check.Fatal(t, check.Is(c.Have, c.Want, "done, and %s has %v", c.Name, c.Have))
				}
				return
			case podresize.Look:
				in.Seen = &podresize.Seen{At: in.Now, Pod: pod, Containers: map[string]int64{}}
				for _, id := range s.IDs {
					in.Seen.Containers[id] = 0
				}
			case podresize.SetPod:
				if !lost {
					pod, in.Seen.Pod = s.To, s.To
				}
			case podresize.Update:
				i := slices.IndexFunc(in.Containers, func(c podresize.Container) bool { return c.ID == s.ID })
				if !lost {
					in.Containers[i].Have = s.To
				}
			case podresize.Wait, podresize.Blocked:
				t.Fatalf("%s, and nothing is in the way", text(step))
			}
			in.Now = in.Now.Add(time.Second)
		}
		t.Fatal("no end after 100 steps")
	})
}

func list(cpu, memory string) v1.ResourceList {
	l := v1.ResourceList{}
	if cpu != "" {
		l[v1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		l[v1.ResourceMemory] = resource.MustParse(memory)
	}
	return l
}

func pod(name, cpu, memory string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "c", Resources: v1.ResourceRequirements{Requests: list(cpu, memory)},
		}}},
	}
}

// TestBound: the CPU and memory of a Guaranteed pod do not change with the static policy of each; all else may.
func TestBound(t *testing.T) {
	guaranteed := func(cpu, memory string) *v1.Pod {
		p := pod("p", cpu, memory)
		p.Spec.Containers[0].Resources.Limits = list(cpu, memory)
		return p
	}
	for _, c := range []struct {
		name           string
		desired, given *v1.Pod
		// cpu and memory: why it is refused where containers have CPUs, or memory, of their own.
		cpu, memory string
	}{
		{"more CPU", guaranteed("2", "1Gi"), guaranteed("1", "1Gi"), "guaranteed_pod_cpu_manager_static_policy", ""},
		{"less CPU", guaranteed("500m", "1Gi"), guaranteed("1", "1Gi"), "guaranteed_pod_cpu_manager_static_policy", ""},
		{"more memory", guaranteed("1", "2Gi"), guaranteed("1", "1Gi"), "", "guaranteed_pod_memory_manager_static_policy"},
		{"another class", pod("p", "2", "2Gi"), pod("p", "1", "1Gi"), "", ""},
	} {
		detail := func(cpus, memory bool) string {
			v, _ := podresize.Bound(c.desired, c.given, cpus, memory).(podresize.Refuse)
			return v.Detail
		}
		check.Equal(t, detail(true, false), c.cpu, "%s, with exclusive CPUs", c.name)
		check.Equal(t, detail(false, true), c.memory, "%s, with memory of their own", c.name)
		if got := podresize.Bound(c.desired, c.given, false, false); got != nil {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestDecide(t *testing.T) {
	limited := pod("p", "1", "")
	limited.Spec.Containers[0].Resources.Limits = list("1", "1Gi")
	limited.Spec.Containers[0].Resources.Requests = list("1", "1Gi")
	whole := pod("p", "1", "")
	whole.Spec.Resources = &v1.ResourceRequirements{Requests: list("5", "")}
	ended := pod("o", "3", "")
	ended.Status.Phase = v1.PodSucceeded
	for _, c := range []struct {
		name           string
		desired, given *v1.Pod
		others         []*v1.Pod
		want           podresize.Verdict
	}{
		{"room", pod("p", "2", "1Gi"), pod("p", "1", "1Gi"), []*v1.Pod{pod("o", "2", "1Gi")}, podresize.Allocate{}},
		{"exactly all", pod("p", "4", "8Gi"), pod("p", "1", "1Gi"), nil, podresize.Allocate{}},
		{"no room now", pod("p", "3", ""), pod("p", "1", ""), []*v1.Pod{pod("o", "2", "")},
			podresize.Defer{Message: "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000", Short: "OutOfcpu"}},
		{"no memory now", pod("p", "1", "7Gi"), pod("p", "1", "1Gi"), []*v1.Pod{pod("o", "1", "2Gi")},
			podresize.Defer{Message: "Node didn't have enough resource: memory, requested: 7516192768, used: 2147483648, capacity: 8589934592", Short: "OutOfmemory"}},
		{"never", pod("p", "5", ""), pod("p", "1", ""), nil,
			podresize.Refuse{Message: "Node didn't have enough capacity: cpu, requested: 5000, capacity: 4000", Detail: podresize.Insufficient}},
		{"never the one, and now not the other", pod("p", "4", "9Gi"), pod("p", "1", "1Gi"), []*v1.Pod{pod("o", "2", "")},
			podresize.Refuse{Message: "Node didn't have enough capacity: memory, requested: 9663676416, capacity: 8589934592", Detail: podresize.Insufficient}},
		{"the pod as a whole never", whole, pod("p", "1", ""), nil,
			podresize.Refuse{Message: "Node didn't have enough capacity: cpu, requested: 5000, capacity: 4000", Detail: podresize.Insufficient}},
		{"less, on a node that is overcommitted", pod("p", "2", ""), pod("p", "3", ""), []*v1.Pod{pod("o", "4", "")}, podresize.Allocate{}},
		{"more of what there is, on a node without room for the rest", pod("p", "2", "2Gi"), pod("p", "2", "1Gi"), []*v1.Pod{pod("o", "4", "")}, podresize.Allocate{}},
		{"what has ended holds nothing", pod("p", "4", ""), pod("p", "1", ""), []*v1.Pod{ended}, podresize.Allocate{}},
		{"it does not hold against itself", pod("p", "4", ""), pod("p", "1", ""), []*v1.Pod{pod("p", "1", "")}, podresize.Allocate{}},
		{"another class", limited, pod("p", "1", "1Gi"), nil, podresize.Refuse{Message: "the pod's QoS class can't change from Burstable to Guaranteed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			check.Equal(t, podresize.Decide(c.desired, c.given, c.others, list("4", "8Gi")), c.want, "got")
		})
	}
}

// TestRoom: whatever is asked for in whatever order, what is allocated fits the
// node, each that is deferred is given as soon as there is room, and one that is
// refused never fits.
func TestRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		allocatable := list("10", "10")
		desired, given := map[types.UID]*v1.Pod{}, map[types.UID]*v1.Pod{}
		var ids []types.UID
		for i := range rapid.IntRange(1, 5).Draw(t, "pods") {
			p := pod(fmt.Sprint(i), "2", "2")
			ids, desired[p.UID], given[p.UID] = append(ids, p.UID), p, p
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			id := rapid.SampledFrom(ids).Draw(t, "pod")
			// Some CPU: with none of anything it would be of another QoS class.
			desired[id] = pod(string(id), fmt.Sprint(rapid.IntRange(1, 12).Draw(t, "cpu")), fmt.Sprint(rapid.IntRange(0, 12).Draw(t, "memory")))
			slices.SortFunc(ids, func(a, b types.UID) int {
				return podresize.Order(podresize.Waiter{Desired: desired[a], Allocated: given[a]}, podresize.Waiter{Desired: desired[b], Allocated: given[b]})
			})
			for _, id := range ids {
				var others []*v1.Pod
				for _, o := range ids {
					if o != id {
						others = append(others, given[o])
					}
				}
				switch podresize.Decide(desired[id], given[id], others, allocatable).(type) {
				case podresize.Allocate:
					given[id] = desired[id]
				case podresize.Refuse:
					r := podspec.Requests(desired[id])
					if r.Cpu().Value() <= 10 && r.Memory().Value() <= 10 {
						t.Fatalf("%v is refused", r)
					}
				case podresize.Defer:
				}
			}
			sum := list("0", "0")
			for _, id := range ids {
				for name, q := range podspec.Requests(given[id]) {
					s := sum[name]
					s.Add(q)
					sum[name] = s
				}
			}
			if sum.Cpu().Value() > 10 || sum.Memory().Value() > 10 {
				t.Fatalf("%v is allocated of %v", sum, allocatable)
			}
		}
	})
}

func TestAllocation(t *testing.T) {
	p := pod("p", "1", "1Gi")
	p.Spec.InitContainers = []v1.Container{{Name: "i", Resources: v1.ResourceRequirements{Requests: list("2", "")}}}
	a := podresize.Of(p)
	if a.Apply(p) != p || podresize.FromStatus(p) != nil {
		t.Error("what is asked for is not what is held")
	}
	bigger := p.DeepCopy()
	bigger.Generation = 2
	bigger.Spec.Containers[0].Resources.Requests = list("2", "1Gi")
	if !podresize.Changed(p, bigger) || podresize.Changed(p, p.DeepCopy()) {
		t.Error("a change is not seen, or seen where there is none")
	}
	got := a.Apply(bigger)
	if q := got.Spec.Containers[0].Resources.Requests[v1.ResourceCPU]; q.String() != "1" || got.Generation != 2 {
		t.Errorf("the pod has %s, generation %d", q.String(), got.Generation)
	}
	if q := bigger.Spec.Containers[0].Resources.Requests[v1.ResourceCPU]; q.String() != "2" {
		t.Errorf("the pod that asks was changed: %s", q.String())
	}
	bigger.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c",
		AllocatedResources: list("1", "1Gi"), Resources: &v1.ResourceRequirements{Requests: list("1", "1Gi"), Limits: list("3", "")}}}
	was := podresize.FromStatus(bigger)
	if was == nil {
		t.Fatal("the status is not heard")
	}
	r := was.Containers["c"]
	if r.Requests.Cpu().String() != "1" || r.Limits.Cpu().String() != "3" || r.Requests.Memory().String() != "1Gi" {
		t.Errorf("the status says %+v", r)
	}
	bigger.Status.ContainerStatuses[0].AllocatedResources = nil
	if r := podresize.FromStatus(bigger).Containers["c"]; r.Requests.Cpu().String() != "2" || r.Limits.Cpu().String() != "3" {
		t.Errorf("a status without what is allocated says %+v", r)
	}
	bigger.Status.ContainerStatuses[0].AllocatedResources = list("2", "1Gi")
	bigger.Status.ContainerStatuses[0].Resources.Limits = nil
	if podresize.FromStatus(bigger) != nil {
		t.Error("a status that says what is asked for is taken for another")
	}
}

// TestFromStatusOfAPodWithResources: what the status of a container shows of its pod, and that of a pod of its containers, is
// no other allocation.
func TestFromStatusOfAPodWithResources(t *testing.T) {
	p := pod("p", "1", "1Gi")
	p.Spec.Resources = &v1.ResourceRequirements{Limits: list("4", "")}
	p.Spec.Containers[0].Resources.Limits = list("", "2Gi")
	p.Status.Resources = &v1.ResourceRequirements{Requests: list("1", "1Gi"), Limits: list("4", "2Gi")}
	p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", AllocatedResources: list("1", "1Gi"),
		Resources: &v1.ResourceRequirements{Requests: list("1", "1Gi"), Limits: list("4", "2Gi")}}}
	if a := podresize.FromStatus(p); a != nil {
		t.Errorf("it was allocated %+v", a)
	}
	for what, change := range map[string]func(s *v1.PodStatus){
		"the limit of the container": func(s *v1.PodStatus) { s.ContainerStatuses[0].Resources.Limits = list("4", "1Gi") },
		"the limit of the pod":       func(s *v1.PodStatus) { s.Resources.Limits = list("3", "2Gi") },
	} {
		was := p.DeepCopy()
		change(&was.Status)
		if podresize.FromStatus(was) == nil {
			t.Errorf("%s is not heard", what)
		}
	}
}

func TestOrder(t *testing.T) {
	high := pod("high", "3", "")
	high.Spec.Priority = new(int32(10))
	waiters := []podresize.Waiter{
		{Desired: pod("late", "3", ""), Allocated: pod("late", "1", ""), Since: noon.Add(time.Minute), Rank: 1},
		{Desired: pod("new", "3", ""), Allocated: pod("new", "1", ""), Rank: 2},
		{Desired: pod("early", "3", ""), Allocated: pod("early", "1", ""), Since: noon, Rank: 3},
		{Desired: pod("guaranteed", "3", ""), Allocated: pod("guaranteed", "1", ""), Class: v1.PodQOSGuaranteed, Rank: 4},
		{Desired: high, Allocated: pod("high", "1", ""), Rank: 5},
		{Desired: pod("less", "1", ""), Allocated: pod("less", "3", ""), Rank: 6},
	}
	slices.SortFunc(waiters, podresize.Order)
	var got []string
	for _, w := range waiters {
		got = append(got, w.Desired.Name)
	}
	check.Same(t, got, []string{"less", "high", "guaranteed", "early", "late", "new"}, "got")
}

// TestGreater: of two allocations each resource counts as the greater of both.
func TestGreater(t *testing.T) {
	of := func(cpu, memory string) v1.ResourceRequirements {
		return v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}}
	}
	a, b := of("4", "1Gi"), of("1", "2Gi")
	had := podresize.Allocation{Pod: &a, Containers: map[string]v1.ResourceRequirements{"main": a, "gone": a, "bare": {}}}
	gets := podresize.Allocation{Generation: 2, Pod: &b, Containers: map[string]v1.ResourceRequirements{"main": b, "bare": b}}
	got, most := podresize.Greater(&had, &gets), of("4", "2Gi")
	want := podresize.Allocation{Generation: 2, Pod: &most, Containers: map[string]v1.ResourceRequirements{"main": most, "gone": a, "bare": b}}
	if !apiequality.Semantic.DeepEqual(*got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if !apiequality.Semantic.DeepEqual(gets.Containers["main"], b) || len(gets.Containers) != 2 {
		t.Error("one of the two was changed")
	}
}
