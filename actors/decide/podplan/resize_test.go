package podplan

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podresize"
)

func sized(quota, memory int64) observed.Resources {
	return observed.Resources{CPUShares: 2, CPUQuota: quota, CPUPeriod: 100, Memory: memory}
}

// resizing is a pod that runs with have and was given want.
func resizing(in *Input, have, want observed.Resources) {
	in.Cgroup = podcgroup.Cgroup{Own: true, State: podcgroup.Up}
	in.Resize = &Resize{
		Generation: 2, Pod: want, Containers: map[string]observed.Resources{"a": want},
	}
	in.Resized, in.Seen = true, &podresize.Seen{At: t0, Pod: have, Containers: map[string]int64{"a0": 1}}
	for i := range in.View.Containers {
		in.View.Containers[i].Resources = &have
	}
}

func byRestart(name v1.ResourceName) []v1.ContainerResizePolicy {
	return []v1.ContainerResizePolicy{{ResourceName: name, RestartPolicy: v1.RestartContainer}}
}

// asked is a container that was made when it asked for 64Mi of memory, and asks for another amount.
func asked(in *Input, memory string, policies []v1.ContainerResizePolicy) {
	c := main0(in)
	c.ResizePolicy = policies
	c.Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")}
	in.View.Containers[0].SpecHash = SpecHash(c)
	c.Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)}
}

func TestPlanResize(t *testing.T) {
	small, big := sized(100, 64), sized(200, 128)
	grow := func(more ...func(*Input)) func(*Input) {
		return func(in *Input) {
			resizing(in, small, big)
			for _, f := range more {
				f(in)
			}
		}
	}
	stopped := func(in *Input) { notes(in, "a0", podlife.ResizeRestarts, true) }
	never := func(in *Input) { in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever }
	checkPlans(t, []planCase{
		{"was resized, and is done", runInput, func(in *Input) { resizing(in, big, big) }, ""},
		{"pod first", runInput, grow(), "resize pod to 200/128; RESIZING"},
		{"then its container", runInput, grow(func(in *Input) { in.Seen.Pod = big }), "resize a0 to 200/128; RESIZING"},
		{"one at a time", runInput, grow(func(in *Input) { busyWith(in, ResizePod{To: big}) }), "RESIZING"},
		{"given, and what the runtime says is rounded", runInput, grow(func(in *Input) {
			in.Seen.Pod, in.Given = big, map[string]observed.Resources{"a0": big}
		}), ""},
		{"it is not known how the pod is", runInput, grow(func(in *Input) { in.Seen = nil }), "look; RESIZING"},
		{"it is not known how the pod is, and it was done", runInput, func(in *Input) { resizing(in, big, big); in.Seen = nil }, "look"},
		{"it is not known how the pod is, and it was not done", runInput, func(in *Input) {
			resizing(in, big, big)
			in.Seen, in.Resize.Was = nil, true
		}, "look; RESIZING"},
		{"only the weight is not known", runInput, func(in *Input) { resizing(in, big, big); in.Seen.Pod.CPUShares = 0 }, "resize pod to 200/128"},
		{"it is not known how the container is", runInput, func(in *Input) {
			resizing(in, big, big)
			in.View.Containers[0].Resources, in.View.Containers[0].Detailed, in.Resize.Was = nil, false, true
		}, "inspect a0; RESIZING"},
		{"the runtime doesn't say how the container is", runInput, func(in *Input) { resizing(in, big, big); in.View.Containers[0].Resources = nil },
			"resize a0 to 200/128; RESIZING"},
		{"it was refused", runInput, grow(func(in *Input) { failedLane(in, Lane{Kind: LaneResize}, 1, 0, "ResizeError") }), "RESIZING because; wake +1s"},
		{"memory is in use", runInput, func(in *Input) { resizing(in, big, small); in.Seen.Usage = 100 },
			"RESIZING cannot decrease memory limits: attempting to set pod memory limit (64) below current usage (100); wake +10s"},
		{"restart for it", runInput, grow(func(in *Input) { main0(in).ResizePolicy = byRestart(v1.ResourceMemory) }),
			"resize pod to 200/128; note a0 ResizeRestarts; RESIZING"},
		{"restart for it, written down", runInput, grow(stopped, func(in *Input) { main0(in).ResizePolicy = byRestart(v1.ResourceMemory) }),
			"resize pod to 200/128; stop a0 30s; Killing! Container a resize requires restart; RESIZING"},
		{"restart for another", runInput, grow(func(in *Input) {
			main0(in).ResizePolicy = byRestart(v1.ResourceMemory)
			in.Resize.Pod.Memory, in.Resize.Containers["a"] = 64, sized(200, 64)
		}), "resize pod to 200/64; RESIZING"},
		{"restart for a request alone", runInput, func(in *Input) {
			resizing(in, big, big)
			stopped(in)
			asked(in, "32Mi", byRestart(v1.ResourceMemory))
		}, "stop a0 30s; Killing! Container a resize requires restart; RESIZING"},
		{"restart for a request alone, of which only an earlier agent was told", runInput, func(in *Input) { stopped(in); asked(in, "32Mi", byRestart(v1.ResourceMemory)) },
			"stop a0 30s; Killing! Container a resize requires restart"},
		{"made for another request", upInput, func(in *Input) {
			containers(in, created("a", 0))
			asked(in, "32Mi", byRestart(v1.ResourceMemory))
		}, "remove a0; a: ContainerCreating"},
		{"no restart for what it asks for already", runInput, func(in *Input) { resizing(in, big, big); asked(in, "64Mi", byRestart(v1.ResourceMemory)) }, ""},
		{"no restart for a request alone", runInput, func(in *Input) { resizing(in, big, big); asked(in, "32Mi", nil) }, ""},
		{"no restart for a request alone of one that an agent made which did not say it", runInput, func(in *Input) {
			resizing(in, big, big)
			asked(in, "32Mi", byRestart(v1.ResourceMemory))
			in.View.Containers[0].SpecHash, _, _ = strings.Cut(in.View.Containers[0].SpecHash, "-")
		}, ""},
		{"stopped for it, of policy Never", upInput, func(in *Input) {
			containers(in, exited("a", 0, 0, 0))
			grow(stopped, never, func(in *Input) { main0(in).ResizePolicy = byRestart(v1.ResourceCPU); in.Seen.Pod = big })(in)
		}, "create a#1 in s0"},
		{"ended by itself, of policy Never", upInput, func(in *Input) {
			containers(in, exited("a", 0, 0, 0))
			grow(never, func(in *Input) { main0(in).ResizePolicy = byRestart(v1.ResourceCPU) })(in)
		}, "DONE all containers have finished"},
		{"stopped for it often", upInput, func(in *Input) {
			containers(in, exited("a", 5, 143, 0))
			resizing(in, small, big)
			notes(in, "a5", podlife.ResizeRestarts, true)
			main0(in).ResizePolicy, in.Seen.Pod = byRestart(v1.ResourceCPU), big
		}, "create a#6 in s0"},
		{"crashed often, and is given more by an agent that does not remember how often", upInput, func(in *Input) {
			containers(in, exited("a", 5, 137, 0))
			grow(func(in *Input) { in.Seen.Pod = big })(in)
		}, "create a#6 in s0"},
		{"crashed often, and asks for more since", upInput, func(in *Input) {
			containers(in, exited("a", 5, 137, 0))
			asked(in, "128Mi", byRestart(v1.ResourceMemory))
			in.Crash = map[string]backoff.Crash{"a": {Attempt: 5, Delay: time.Minute, Noted: true}}
		}, "create a#6 in s0"},
		{"crashed often, of a runtime that reports other limits than it was given", upInput, func(in *Input) {
			containers(in, exited("a", 5, 137, 0))
			grow(func(in *Input) { in.Seen.Pod = big })(in)
			in.Crash = map[string]backoff.Crash{"a": {Attempt: 5, Delay: time.Minute, Noted: true}}
		}, "a: CrashLoopBackOff; wake +1m0s"},
		{"what is made waits for its pod", upInput, grow(), "resize pod to 200/128; a: ContainerCreating; RESIZING"},
		{"made before it was resized, and not started yet", upInput, func(in *Input) {
			containers(in, created("a", 0))
			resizing(in, small, big)
			in.View.Containers[0].Resources, in.Seen.Pod = nil, big
		}, "start a0; read a0; a: ContainerCreating; RESIZING"},
		{"being made when it was resized", upInput, func(in *Input) {
			resizing(in, big, big)
			busyWith(in, CreateContainer{Name: "a"})
		}, "a: ContainerCreating; RESIZING"},
		{"made as it is to be, and not started yet", upInput, func(in *Input) {
			containers(in, created("a", 0))
			resizing(in, big, big)
		}, "start a0; read a0; a: ContainerCreating"},
		{"not known how it was made, and not started yet", upInput, func(in *Input) {
			containers(in, created("a", 0))
			resizing(in, big, big)
			in.View.Containers[0].Resources, in.View.Containers[0].Detailed, in.Resize.Was = nil, false, true
		}, "inspect a0; a: ContainerCreating; RESIZING"},
		{"being deleted", runInput, func(in *Input) {
			resizing(in, small, big)
			in.Life = 1
			in.Stop = &podlife.Stop{At: t0, Grace: 30 * time.Second, Why: "gone"}
		},
			"stop a0 30s; Killing! Stopping container a"},
	})
}

// TestResizeEndsBackoff: when a container is given other limits, its earlier crashes no longer count,
// whether it is dead or still runs. Those of the others do.
func TestResizeEndsBackoff(t *testing.T) {
	in := upInput()
	containers(&in, exited("a", 5, 137, 0), alive("b", 3), exited("c", 4, 1, 0))
	in.Crash = map[string]backoff.Crash{"a": {Attempt: 5, Delay: time.Minute}, "b": {Attempt: 2, Delay: time.Minute},
		"c": {Attempt: 4, Delay: time.Minute}}
	in.ResizeAgain([]string{"a", "b", "new"})
	if got := said(Plan(in)); !strings.Contains(got, "create a#6 in s0") {
		t.Error(got)
	}
	for name, want := range map[string]backoff.Crash{"a": {Attempt: 5}, "b": {Attempt: 3}, "c": {Attempt: 4, Delay: time.Minute}} {
		if in.Crash[name] != want {
			t.Errorf("of %s it remembers %+v, want %+v", name, in.Crash[name], want)
		}
	}
}
