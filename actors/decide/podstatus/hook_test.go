package podstatus_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/tests/check"
)

func hook(name string, s podplan.HookState) func(*podstatus.Input) {
	return func(in *podstatus.Input) {
		for i := range in.Plan.Pod.Spec.InitContainers {
			if c := &in.Plan.Pod.Spec.InitContainers[i]; c.Name == name {
				c.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}}
			}
		}
		for i := range in.Plan.Pod.Spec.Containers {
			if c := &in.Plan.Pod.Spec.Containers[i]; c.Name == name {
				c.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}}
			}
		}
		in.Plan.Hooks = map[string]podplan.Hooks{name + "0": {PostStart: s}}
	}
}

func postStart(s podplan.HookState) func(*podstatus.Input) { return hook("a", s) }

// TestPostStart: a container that has begun is shown as waiting, and its pod as Pending, until its postStart hook has
// ended. Tools run what comes next in a pod as soon as it is Running.
func TestPostStart(t *testing.T) {
	const (
		unready = "Ready=False ContainersNotReady containers with unready status: [a]; ContainersReady=False ContainersNotReady containers with unready status: [a]"
		ahead   = "(its postStart hook has not ended yet)"
	)
	for _, c := range []struct {
		name  string
		steps steps
		want  string
	}{
		{"has not begun", steps{postStart(podplan.HookNotRun)}, "Pending; " + unready + "; a waits ContainerCreating" + ahead},
		{"runs", steps{postStart(podplan.HookRunning)}, "Pending; " + unready + "; a waits ContainerCreating" + ahead},
		{"is over", steps{postStart(podplan.HookRunning), postStart(podplan.HookDone)}, "Running; a runs started ready"},
		{"is not known to be over, but the container was shown as running", steps{postStart(podplan.HookDone), postStart(podplan.HookNotRun)},
			"Running; " + unready + "; a runs"},
		{"failed: the container is being stopped", steps{postStart(podplan.HookFailed)}, "Pending; " + unready + "; a waits PostStartHookError"},
		{"of a container that was restarted", steps{func(*podstatus.Input) {}, containers(exited("a", 0, 0)),
			all(policy(v1.RestartPolicyOnFailure), postStart(podplan.HookDone), containers(running("a", 1), exited("a", 0, 0)))},
			"Running; " + unready + "; a waits ContainerCreating" + ahead + " last ended 0 Completed restarts 1"},
		{"the pod is deleted meanwhile", steps{postStart(podplan.HookRunning), ending(podlife.Stop{At: noon})}, "Running; " + unready + "; a runs"},
		{"of a static pod that came back", steps{all(func(in *podstatus.Input) { in.Plan.FirstSandbox = 1 },
			newSandbox, postStart(podplan.HookDone), containers(inNew(running("a", 1)), exited("a", 0, 0)))},
			"Pending; " + unready + "; a waits ContainerCreating" + ahead + " last ended 0 Completed restarts 1"},
		{"of a sidecar", steps{all(addSidecar("s"), containers(running("s", 0)), hook("s", podplan.HookRunning))},
			"Pending; Initialized=False ContainersNotInitialized containers with incomplete status: [s]; Ready=False ContainersNotReady containers with unready status: [s a]; " +
				"ContainersReady=False ContainersNotReady containers with unready status: [s a]; s waits PodInitializing" + ahead + "; a waits PodInitializing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			check.Equal(t, brief(lastOf(c.steps)), c.want, "got")
		})
	}
}
