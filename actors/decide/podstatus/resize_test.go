package podstatus_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
)

// resized gives the pod's container limits of 2 CPUs and 128 bytes; it has have.
func resized(have *observed.Resources, more ...func(*podplan.Resize)) func(*podstatus.Input) {
	return func(in *podstatus.Input) {
		want := observed.Resources{CPUShares: 2048, CPUQuota: 200_000, CPUPeriod: 100_000, Memory: 128}
		r := requirements("cpu=2 memory=128")
		in.Plan.Pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: r, Limits: r}
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
	const was, is = "given 2/128, asks 1/128, may 1/64", "given 2/128, asks 2/128, may 2/128"
	for _, c := range []struct {
		name  string
		steps steps
		want  string
	}{
		{"in progress", steps{resized(before)}, was + "; PodResizeInProgress   (2)"},
		{"done", steps{resized(before), resized(done)}, is},
		{"no limit yet", steps{resized(&observed.Resources{CPUShares: 1024, CPUPeriod: 100_000})}, "given 2/128, asks 1/128, may ; PodResizeInProgress   (2)"},
		{"the runtime doesn't say", steps{resized(before), resized(nil)}, was + "; PodResizeInProgress   (2)"},
		{"refused", steps{all(resized(before), refused)}, was + "; PodResizeInProgress Error device or resource busy (2)"},
		{"tried again", steps{all(resized(before), refused), again}, was + "; PodResizeInProgress Error device or resource busy (2)"},
		{"another was given", steps{all(resized(before), refused), all(again, func(in *podstatus.Input) { in.Plan.Resize.Generation = 3 })}, was + "; PodResizeInProgress   (3)"},
		{"pending", steps{resized(done, pending)}, is + "; PodResizePending Deferred no room (3)"},
		{"pending no more", steps{resized(done, pending), resized(done)}, is},
		{"as it was made, though something else is seen", steps{all(resized(before), func(in *podstatus.Input) { in.Plan.Resize = nil })}, is},
		{"ended", steps{resized(before), all(containers(exited("a", 0, 1)), resized(before))}, is},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := shownResources(lastOf(c.steps)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
