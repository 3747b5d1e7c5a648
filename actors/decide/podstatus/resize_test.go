package podstatus_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/tests/check"
)

// resized gives the pod's container limits of 2 CPUs and 128 bytes; it has have.
func resized(have *observed.Resources, more ...func(*podplan.Resize)) func(*podstatus.Input) {
	return func(in *podstatus.Input) {
		want := observed.Resources{CPUShares: 2048, CPUQuota: 200_000, CPUPeriod: 100_000, Memory: 128}
		r := requirements("cpu=2 memory=128")
		in.Plan.Pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: r, Limits: r}
		in.Plan.Pod.Generation = 2
		in.Plan.View.Containers[0].Resources = have
		in.Plan.Resize = &podplan.Resize{Generation: 2, Pod: want, Containers: map[string]observed.Resources{"a": want}}
		for _, f := range more {
			f(in.Plan.Resize)
		}
	}
}

func requirements(s string) v1.ResourceList {
	out := v1.ResourceList{}
	for _, f := range strings.Fields(s) {
		name, q, _ := strings.Cut(f, "=")
		out[v1.ResourceName(name)] = resource.MustParse(q)
	}
	return out
}

func shownResources(s *v1.PodStatus) string {
	c := &s.ContainerStatuses[0]
	text := func(l v1.ResourceList) string {
		out := ""
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			if q, ok := l[name]; ok {
				out += "/" + q.String()
			}
		}
		return strings.TrimPrefix(out, "/")
	}
	out := "given " + text(c.AllocatedResources) + ", asks " + text(c.Resources.Requests) + ", may " + text(c.Resources.Limits)
	for _, cond := range s.Conditions {
		if cond.Type == v1.PodResizePending || cond.Type == v1.PodResizeInProgress {
			out += fmt.Sprintf("; %s %s %s (%d)", cond.Type, cond.Reason, cond.Message, cond.ObservedGeneration)
		}
	}
	return out
}

// TestResized: a status shows what a container has, not what it is to have.
func TestResized(t *testing.T) {
	before := &observed.Resources{CPUShares: 1024, CPUQuota: 100_000, CPUPeriod: 100_000, Memory: 64}
	done := &observed.Resources{CPUShares: 2048, CPUQuota: 200_000, CPUPeriod: 100_000, Memory: 128}
	refused := func(in *podstatus.Input) {
		in.Plan.Failures = map[podplan.Lane]podplan.Failure{{Kind: podplan.LaneResize}: {Count: 1, At: noon, Message: "device or resource busy"}}
	}
	again := func(in *podstatus.Input) { in.Plan.Failures = nil }
	pending := func(r *podplan.Resize) {
		r.Pending = &podresize.Pending{Reason: v1.PodReasonDeferred, Message: "no room", Generation: 3}
	}
	own := func(in *podstatus.Input) {
		in.Plan.Resize.Containers["a"] = observed.Resources{CPUShares: 2048, CPUPeriod: 100_000, Memory: 128}
	}
	given := func(in *podstatus.Input) {
		in.Plan.Given = map[string]observed.Resources{in.Plan.View.Containers[0].ID: in.Plan.Resize.Containers["a"]}
	}
	const was, is = "given 2/128, asks 1/128, may 1/64", "given 2/128, asks 2/128, may 2/128"
	for _, c := range []struct {
		name  string
		steps steps
		want  string
	}{
		{"in progress", steps{resized(before)}, was + "; PodResizeInProgress   (2)"},
		{"done", steps{resized(before), resized(done)}, is},
		{"no limit yet", steps{resized(&observed.Resources{CPUShares: 1024, CPUPeriod: 100_000})}, "given 2/128, asks 1/128, may ; PodResizeInProgress   (2)"},
		{"exclusive CPUs, and still a quota", steps{all(resized(before), own)}, was + "; PodResizeInProgress   (2)"},
		{"exclusive CPUs instead of a quota", steps{resized(before), all(resized(&observed.Resources{CPUShares: 2048, CPUPeriod: 50_000, Memory: 128}), own, given)}, is},
		{"the runtime doesn't say", steps{resized(before), resized(nil)}, was + "; PodResizeInProgress   (2)"},
		{"refused", steps{all(resized(before), refused)}, was + "; PodResizeInProgress Error device or resource busy (2)"},
		{"tried again", steps{all(resized(before), refused), again}, was + "; PodResizeInProgress Error device or resource busy (2)"},
		{"another was given", steps{all(resized(before), refused), all(again, func(in *podstatus.Input) { in.Plan.Resize.Generation, in.Plan.Pod.Generation = 3, 3 })}, was + "; PodResizeInProgress   (3)"},
		{"pending", steps{resized(done, pending)}, is + "; PodResizePending Deferred no room (3)"},
		{"pending no more", steps{resized(done, pending), resized(done)}, is},
		{"as it was made, though something else is seen", steps{all(resized(before), func(in *podstatus.Input) { in.Plan.Resize = nil })}, is},
		{"ended", steps{resized(before), all(containers(exited("a", 0, 1)), resized(before))}, is},
	} {
		t.Run(c.name, func(t *testing.T) {
			check.Equal(t, shownResources(lastOf(c.steps)), c.want, "got")
		})
	}
}

// TestLimitsOfThePod: a container with limits has those of its pod, too, while it runs.
func TestLimitsOfThePod(t *testing.T) {
	of := func(pod, limits string, have *observed.Resources) func(*podstatus.Input) {
		return func(in *podstatus.Input) {
			if pod != "" {
				in.Plan.Pod.Spec.Resources = &v1.ResourceRequirements{Limits: requirements(pod)}
			}
			in.Plan.Pod.Spec.Containers[0].Resources.Limits = requirements(limits)
			if limits == "" {
				in.Plan.Pod.Spec.Containers[0].Resources.Limits = nil
			}
			in.Plan.View.Containers[0].Resources = have
		}
	}
	has := &observed.Resources{CPUQuota: 70_000, CPUPeriod: 100_000, Memory: 1 << 30}
	for name, c := range map[string]struct {
		steps steps
		want  string
	}{
		"memory of the pod": {steps{of("memory=1Gi", "cpu=700m", has)}, "700m/1Gi"},
		"CPU of the pod":    {steps{of("cpu=700m", "memory=1Gi", has)}, "700m/1Gi"},
		"its own":           {steps{of("cpu=2", "cpu=700m memory=1Gi", has)}, "700m/1Gi"},
		"no limits":         {steps{of("cpu=700m memory=1Gi", "", has)}, ""},
		"nothing is known":  {steps{of("memory=1Gi", "cpu=700m", nil)}, "700m"},
		"of its own alone":  {steps{of("", "cpu=700m", has)}, "700m"},
		"it has ended":      {steps{of("memory=1Gi", "cpu=700m", has), all(containers(exited("a", 0, 1)), of("memory=1Gi", "cpu=700m", has))}, "700m"},
	} {
		t.Run(name, func(t *testing.T) {
			_, may, _ := strings.Cut(shownResources(lastOf(c.steps)), ", may ")
			check.Equal(t, may, c.want, "the limits")
		})
	}
}

// TestResizeAcknowledged: a generation is acknowledged when it is decided what becomes of
// it, and then what becomes of it is said in the same status.
func TestResizeAcknowledged(t *testing.T) {
	before := &observed.Resources{CPUShares: 1024, CPUQuota: 100_000, CPUPeriod: 100_000, Memory: 64}
	done := &observed.Resources{CPUShares: 2048, CPUQuota: 200_000, CPUPeriod: 100_000, Memory: 128}
	// The pod asks for something else with generation 3. It is decided on later.
	asks := func(in *podstatus.Input) {
		in.Plan.Pod.Generation, in.Plan.Resize.Undecided = 3, true
	}
	deferred := func(in *podstatus.Input) {
		in.Plan.Pod.Generation, in.Plan.Resize.Undecided = 3, false
		in.Plan.Resize.Pending = &podresize.Pending{Reason: v1.PodReasonDeferred, Message: "no room", Generation: 3}
	}
	// The next agent has looked at nothing yet, and has not decided.
	agentEnds := func(in *podstatus.Input) {
		p := in.Plan.Pod.DeepCopy()
		p.Status = *in.Previous.DeepCopy()
		in.Plan.Pod, in.Previous, in.Plan.Known, in.Plan.View = p, nil, false, observed.Pod{}
		r := *in.Plan.Resize
		r.Pending, in.Plan.Seen, in.Plan.Given = nil, nil, nil
		r.Undecided = p.Generation != r.Generation
		in.Plan.Resize = &r
	}
	alike := func(in *podstatus.Input) { in.Plan.Pod.Generation = 3 }
	ends := func(in *podstatus.Input) {
		in.Plan.Life, in.Plan.Stop = podlife.Terminating, &podlife.Stop{At: noon, Grace: 30 * time.Second}
	}
	never := func(in *podstatus.Input) {
		resized(done)(in)
		in.Plan.Pod.Generation, in.Plan.Resize = 1, nil
		in.Plan.Pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: requirements("cpu=1 memory=64"), Limits: requirements("cpu=1 memory=64")}
	}
	const was, is = "given 2/128, asks 1/128, may 1/64", "given 2/128, asks 2/128, may 2/128"
	for _, c := range []struct {
		name  string
		steps steps
		want  string
	}{
		{"undecided", steps{resized(done), asks}, "2: " + is},
		{"undecided, while another is in progress", steps{resized(before), asks}, "2: " + was + "; PodResizeInProgress   (2)"},
		{"undecided since an agent died that deferred it", steps{resized(done), deferred, agentEnds}, "3: " + is + "; PodResizePending Deferred no room (3)"},
		{"deferred, while another is in progress", steps{resized(before), deferred}, "3: " + was + "; PodResizePending Deferred no room (3); PodResizeInProgress   (2)"},
		{"asks for it again", steps{resized(before), alike}, "3: " + was + "; PodResizeInProgress   (3)"},
		{"another agent has not looked at it", steps{resized(before), agentEnds}, "2: given 2/128, asks 1/128, may 1/64; PodResizeInProgress   (2)"},
		{"given by an agent that died before it said so", steps{never, func(in *podstatus.Input) {
			in.Plan.Pod = in.Plan.Pod.DeepCopy() // the status shares memory with it
			resized(before)(in)
			agentEnds(in)
		}},
			"2: given 2/128, asks 1/64, may 1/64; PodResizeInProgress   (2)"},
		{"in another sandbox, which it is yet to be stopped in", steps{resized(before), newSandbox}, "2: " + was + "; PodResizeInProgress   (2)"},
		{"the runtime agreed to it, and rounds", steps{resized(before), func(in *podstatus.Input) {
			in.Plan.Given = map[string]observed.Resources{"a0": in.Plan.Resize.Containers["a"]}
		}}, "2: " + was},
		{"it ends", steps{resized(before), ends}, "2: " + was + "; PodResizeInProgress   (2)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := lastOf(c.steps)
			check.Equal(t, fmt.Sprintf("%d: %s", s.ObservedGeneration, shownResources(s)), c.want, "got")
		})
	}
}

// TestAllocated: of every pod it is shown what it was allocated, and of those that ask
// for something as a whole, what they have as a whole.
func TestAllocated(t *testing.T) {
	whole := func(requests, limits string) func(*podstatus.Input) {
		return func(in *podstatus.Input) {
			in.Plan.Pod.Spec.Resources = &v1.ResourceRequirements{Requests: requirements(requests), Limits: requirements(limits)}
		}
	}
	asks := func(in *podstatus.Input) {
		in.Plan.Pod.Spec.Containers[0].Resources.Requests = requirements("cpu=1 memory=64")
	}
	second := func(in *podstatus.Input) {
		in.Plan.Pod.Spec.Containers = append(in.Plan.Pod.Spec.Containers, v1.Container{Name: "b", Resources: v1.ResourceRequirements{Requests: requirements("cpu=2")}})
	}
	resize := func(seen, want int64) func(*podstatus.Input) {
		return func(in *podstatus.Input) {
			in.Plan.Cgroup = podcgroup.Cgroup{Own: true, State: podcgroup.Up}
			in.Plan.Resize = &podplan.Resize{Generation: 3, Pod: observed.Resources{CPUShares: 2, Memory: want}, Containers: map[string]observed.Resources{}}
			if seen != 0 {
				in.Plan.Seen = &podresize.Seen{At: noon, Pod: observed.Resources{CPUShares: 2, Memory: seen}}
			}
		}
	}
	for _, c := range []struct {
		name  string
		steps steps
		want  string
	}{
		{"nothing", nil, "allocated []"},
		{"one container", steps{asks}, "allocated [cpu=1 memory=64]"},
		{"two", steps{all(asks, second)}, "allocated [cpu=3 memory=64]"},
		{"overhead", steps{all(asks, func(in *podstatus.Input) { in.Plan.Pod.Spec.Overhead = requirements("cpu=1") })}, "allocated [cpu=2 memory=64]"},
		{"as a whole", steps{all(asks, second, whole("cpu=4", "cpu=5"))}, "allocated [cpu=4 memory=64], has [cpu=4 memory=64] [cpu=5]"},
		{"as a whole, and not looked at", steps{whole("cpu=4", "memory=64"), all(whole("cpu=5", "memory=128"), resize(0, 128))},
			"allocated [cpu=5], has [cpu=4] [memory=64] in progress"},
		{"as a whole, and not done", steps{whole("cpu=4", "memory=64"), all(whole("cpu=5", "memory=128"), resize(64, 128))},
			"allocated [cpu=5], has [cpu=4] [memory=64] in progress"},
		{"as a whole, and done", steps{whole("cpu=4", "memory=64"), all(whole("cpu=5", "memory=128"), resize(128, 128))},
			"allocated [cpu=5], has [cpu=5] [memory=128]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := lastOf(c.steps)
			got := "allocated " + podspec.ResourceText(s.AllocatedResources)
			if s.Resources != nil {
				got += ", has " + podspec.ResourceText(s.Resources.Requests) + " " + podspec.ResourceText(s.Resources.Limits)
			}
			if podstatus.FindCondition(s.Conditions, v1.PodResizeInProgress) != nil {
				got += " in progress"
			}
			check.Equal(t, got, c.want, "got")
		})
	}
}

// TestResizeTimes: since when a resize waits for its reason, and when that was last said.
func TestResizeTimes(t *testing.T) {
	waits := func(reason, message string) func(*podstatus.Input) {
		return resized(nil, func(r *podplan.Resize) {
			r.Pending = &podresize.Pending{Reason: reason, Message: message, Generation: 3}
		})
	}
	in := baseInput()
	for i, c := range []struct {
		step        func(*podstatus.Input)
		since, said int // minutes
	}{
		{waits(v1.PodReasonDeferred, "no room"), 0, 0},
		{waits(v1.PodReasonDeferred, "no room"), 0, 0},
		{waits(v1.PodReasonDeferred, "less room"), 0, 2},
		{waits(v1.PodReasonInfeasible, "never"), 3, 3},
		{waits(v1.PodReasonInfeasible, "never"), 3, 3},
	} {
		in.Plan.Now = noon.Add(time.Duration(i) * time.Minute)
		c.step(&in)
		s := podstatus.Compute(in)
		in.Previous = &s
		got := podstatus.FindCondition(s.Conditions, v1.PodResizePending)
		since, said := noon.Add(time.Duration(c.since)*time.Minute), noon.Add(time.Duration(c.said)*time.Minute)
		if got == nil || !got.LastTransitionTime.Time.Equal(since) || !got.LastProbeTime.Time.Equal(said) {
			t.Errorf("step %d: %+v, want it since %v, said at %v", i, got, since, said)
		}
	}
}
