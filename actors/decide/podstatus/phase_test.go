package podstatus_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
)

// TestPhaseAsKubelet holds the phase against what the kubelet's getPhase (v1.36) makes of the same
// statuses. It differs where that flickers: between two init containers of another sandbox the kubelet
// says Running.
func TestPhaseAsKubelet(t *testing.T) {
	const pending, runs, failed = v1.PodPending, v1.PodRunning, v1.PodFailed
	second := func(in *podstatus.Input) {
		in.Plan.Pod.Spec.Containers = append(in.Plan.Pod.Spec.Containers, v1.Container{Name: "b", Image: "img:1"})
	}
	ran := all(addInit("i"), addInit("j"), containers(running("a", 0), exited("i", 0, 0), exited("j", 0, 0)))
	dead := all(sandboxDown, containers(exited("a", 0, 137), exited("i", 0, 0), exited("j", 0, 0)))
	// inAnother is what there is in the next sandbox, beside what the first one left.
	inAnother := func(more ...observed.Container) func(*podstatus.Input) {
		for i := range more {
			more[i] = inNew(more[i])
		}
		return all(newSandbox, containers(append(more, exited("a", 0, 137), exited("i", 0, 0), exited("j", 0, 0))...))
	}
	withSidecar := all(addSidecar("s"), containers(running("a", 0), running("s", 0)))
	sidecarDead := all(sandboxDown, containers(exited("a", 0, 137), exited("s", 0, 137)))
	later := func(c observed.Container) observed.Container {
		c.CreatedAt = noon.Add(-1)
		return c
	}
	restartsAll := func(in *podstatus.Input) {
		never := v1.ContainerRestartPolicyNever
		c := &in.Plan.Pod.Spec.Containers[0]
		c.RestartPolicy = &never
		c.RestartPolicyRules = []v1.ContainerRestartRule{{
			Action: v1.ContainerRestartRuleActionRestartAllContainers, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
				Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42},
			},
		}}
	}
	created := func(name string, attempt uint32) observed.Container {
		c := running(name, attempt)
		c.State, c.StartedAt = observed.ContainerCreated, time.Time{}
		return c
	}
	unread := func(in *podstatus.Input) {
		containers(created("a", 1), undetailed(exited("a", 0, 1)))(in)
		in.Plan.Pod.Status.Phase = runs
	}
	for _, c := range []struct {
		name          string
		steps         steps
		want, kubelet v1.PodPhase
	}{
		{"an init container runs", steps{all(addInit("i"), containers(running("i", 0)))}, pending, pending},
		{"an init container failed and is tried again", steps{all(addInit("i"), containers(exited("i", 0, 1)))}, pending, pending},
		{"an init container failed for good", steps{all(policy(v1.RestartPolicyNever), addInit("i"), containers(exited("i", 0, 1)),
			sandboxDown, terminated)}, failed, failed},
		{"the init containers are through", steps{all(addInit("i"), containers(exited("i", 0, 0)))}, pending, pending},
		{"it runs", steps{ran}, runs, runs},
		{"one of two was never started", steps{all(second, containers(running("a", 0)))}, pending, pending},
		{"one of two was never started, the other has ended", steps{all(second, containers(exited("a", 0, 1)))}, pending, pending},
		{"of two, one ended and is made again", steps{all(second, containers(running("a", 0), exited("b", 0, 1)))}, runs, runs},
		{"started before, and how it ended is not read", steps{unread}, runs, pending},

		{"its sandbox died", steps{ran, dead}, runs, runs},
		{"its sandbox died, and a container still runs there", steps{ran, sandboxDown}, runs, runs},
		{"another sandbox", steps{ran, dead, inAnother()}, pending, runs},
		{"an init container was made there", steps{ran, dead, inAnother(created("i", 1))}, pending, runs},
		{"an init container runs there", steps{ran, dead, inAnother(running("i", 1))}, pending, pending},
		{"between two init containers", steps{ran, dead, inAnother(exited("i", 1, 0))}, pending, runs},
		{"the second runs", steps{ran, dead, inAnother(exited("i", 1, 0), running("j", 1))}, pending, pending},
		{"the second failed and is tried again", steps{ran, dead, inAnother(exited("i", 1, 0), exited("j", 1, 1))}, pending, runs},
		{"they are through", steps{ran, dead, inAnother(exited("i", 1, 0), exited("j", 1, 0))}, runs, runs},
		{"the first was removed since", steps{ran, dead, inAnother(exited("j", 1, 0))}, runs, runs},
		{"the main container runs there", steps{ran, dead, inAnother(exited("i", 1, 0), exited("j", 1, 0), running("a", 1))}, runs, runs},
		{"that sandbox died as well", steps{ran, dead, inAnother(exited("i", 1, 137)), func(in *podstatus.Input) {
			in.Plan.View.Sandboxes[0].State = observed.SandboxNotReady
		}}, pending, runs},
		{"the agent looks again", steps{ran, dead, inAnother(exited("i", 1, 0)), func(in *podstatus.Input) { in.Plan.Known = false }}, pending, runs},
		{"it ends there", steps{ran, dead, inAnother(exited("i", 1, 0), exited("j", 1, 137)), terminated}, failed, failed},
		{"no init containers", steps{func(*podstatus.Input) {}, all(newSandbox, containers(exited("a", 0, 137)))}, runs, runs},

		{"a sidecar has died after it", steps{withSidecar, containers(running("a", 0), exited("s", 0, 1))}, runs, runs},
		{"a sidecar starts in another sandbox", steps{withSidecar, sidecarDead,
			all(newSandbox, hook("s", podplan.HookRunning), containers(exited("a", 0, 137), inNew(running("s", 1)), exited("s", 0, 137)))}, pending, pending},
		{"a sidecar has started there", steps{withSidecar, sidecarDead,
			all(newSandbox, containers(exited("a", 0, 137), inNew(running("s", 1)), exited("s", 0, 137)))}, runs, runs},
		{"a sidecar died there", steps{withSidecar, sidecarDead,
			all(newSandbox, containers(exited("a", 0, 137), inNew(exited("s", 1, 1)), exited("s", 0, 137)))}, pending, runs},

		{"all are restarted, one still runs", steps{all(ran, restartsAll, second, containers(running("a", 0), running("b", 0), exited("i", 0, 0),
			exited("j", 0, 0))), containers(exited("a", 0, 42), running("b", 0), exited("i", 0, 0), exited("j", 0, 0))}, runs, runs},
		{"all are restarted, an init container runs", steps{all(ran, restartsAll), containers(exited("a", 0, 42), later(running("i", 1)),
			exited("i", 0, 0), exited("j", 0, 0))}, pending, pending},
		{"another life, not started", steps{func(in *podstatus.Input) {
			in.Plan.FirstSandbox = 1
			in.Previous = &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "a", ContainerID: "containerd://a0", RestartCount: 1,
				LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: "containerd://a0"}}}}}
			containers(exited("a", 0, 0))(in)
		}}, pending, runs},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := lastOf(c.steps); got.Phase != c.want {
				t.Errorf("%s, want %s (the kubelet: %s)", brief(got), c.want, c.kubelet)
			}
		})
	}
}
