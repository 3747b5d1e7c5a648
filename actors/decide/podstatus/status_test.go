package podstatus_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/tests/check"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// baseInput is a pod with one main container a that runs, has nothing to do,
// and of which nothing was said before.
func baseInput() podstatus.Input {
	return podstatus.Input{
		Plan: podplan.Input{
			Now: noon, Life: podlife.Syncing,
			Pod: &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "u1", Generation: 3},
				Spec: v1.PodSpec{
					RestartPolicy: v1.RestartPolicyAlways,
					Containers:    []v1.Container{{Name: "a", Image: "img:1", ImagePullPolicy: v1.PullIfNotPresent}},
				},
			},
			Facts: podplan.Facts{
				Known: true,
				View: observed.Pod{
					Sandboxes:  []observed.Sandbox{{ID: "s0", State: observed.SandboxReady, Detailed: true, IPs: []string{"10.1.0.1"}, CreatedAt: noon.Add(-time.Minute)}},
					Containers: []observed.Container{running("a", 0)},
				},
				Volumes: volumeplan.Volumes{State: volumeplan.Up},
			},
			CrashPolicy: backoff.Policy{Base: 10 * time.Second, Max: 5 * time.Minute, Reset: 10 * time.Minute},
			RetryPolicy: backoff.Policy{Base: time.Second, Max: time.Minute},
		},
		HostIPs: []string{"192.0.2.1"}, RuntimeName: "containerd",
	}
}

func running(name string, attempt uint32) observed.Container {
	return observed.Container{
		ID: fmt.Sprintf("%s%d", name, attempt), SandboxID: "s0", Name: name, Attempt: attempt, State: observed.ContainerRunning, Detailed: true,
		Image: "img:1", ImageRef: "sha256:1", CreatedAt: noon.Add(-50 * time.Second), StartedAt: noon.Add(-50 * time.Second),
	}
}

func exited(name string, attempt uint32, code int32) observed.Container {
	c := running(name, attempt)
	c.State, c.ExitCode, c.FinishedAt = observed.ContainerExited, code, noon.Add(-5*time.Second)
	c.Reason = "Completed"
	if code != 0 {
		c.Reason = "Error"
	}
	return c
}

// outOfMemory is a container that lost a child to the OOM killer, and ended with code 0.
func outOfMemory(name string) observed.Container {
	c := exited(name, 0, 0)
	c.Reason = podspec.OOMKilled
	return c
}

// brief is what a user looks at first. Of conditions it has those that aren't
// as in a pod that is well.
func brief(s *v1.PodStatus) string {
	var b strings.Builder
	b.WriteString(string(s.Phase))
	if s.Reason != "" {
		fmt.Fprintf(&b, "(%s: %s)", s.Reason, s.Message)
	}
	for _, c := range s.Conditions {
		if c.Status != v1.ConditionTrue || c.Reason != "" {
			fmt.Fprintf(&b, "; %s=%s %s %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	for _, list := range [...][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			c := &list[i]
			fmt.Fprintf(&b, "; %s %s", c.Name, state(&c.State))
			if c.LastTerminationState != (v1.ContainerState{}) {
				fmt.Fprintf(&b, " last %s", state(&c.LastTerminationState))
			}
			if c.RestartCount > 0 {
				fmt.Fprintf(&b, " restarts %d", c.RestartCount)
			}
			if c.Started != nil && *c.Started {
				b.WriteString(" started")
			}
			if c.Ready {
				b.WriteString(" ready")
			}
		}
	}
	return b.String()
}

func state(s *v1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "runs"
	case s.Terminated != nil:
		return fmt.Sprintf("ended %d %s", s.Terminated.ExitCode, s.Terminated.Reason)
	case s.Waiting != nil && s.Waiting.Message != "":
		return fmt.Sprintf("waits %s(%s)", s.Waiting.Reason, s.Waiting.Message)
	case s.Waiting != nil:
		return "waits " + s.Waiting.Reason
	default:
		return "?"
	}
}

// steps are the mutations of a case: a status is made after each, from the one before.
type steps []func(*podstatus.Input)

func containers(cs ...observed.Container) func(*podstatus.Input) {
	return func(in *podstatus.Input) { in.Plan.View.Containers = cs }
}

func addInit(name string) func(*podstatus.Input) {
	return func(in *podstatus.Input) {
		in.Plan.Pod.Spec.InitContainers = append(in.Plan.Pod.Spec.InitContainers, v1.Container{Name: name, Image: "img:1"})
	}
}

func addSidecar(name string) func(*podstatus.Input) {
	return func(in *podstatus.Input) {
		in.Plan.Pod.Spec.InitContainers = append(in.Plan.Pod.Spec.InitContainers,
			v1.Container{Name: name, Image: "img:1", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways)})
	}
}

func policy(p v1.RestartPolicy) func(*podstatus.Input) {
	return func(in *podstatus.Input) { in.Plan.Pod.Spec.RestartPolicy = p }
}

func ending(s podlife.Stop) func(*podstatus.Input) {
	return func(in *podstatus.Input) {
		in.Plan.Life, in.Plan.Stop = podlife.Terminating, &s
	}
}

func has(s claims.State) func(*podstatus.Input) {
	return func(in *podstatus.Input) { in.Plan.UsesClaims, in.Plan.Claims = true, &claims.Pod{State: s} }
}

func sandboxDown(in *podstatus.Input) {
	in.Plan.View.Sandboxes = []observed.Sandbox{{ID: "s0", State: observed.SandboxNotReady, Detailed: true, CreatedAt: noon.Add(-time.Minute)}}
}

func newSandbox(in *podstatus.Input) {
	in.Plan.View.Sandboxes = append([]observed.Sandbox{{
		ID: "s1", Attempt: 1, State: observed.SandboxReady, Detailed: true, IPs: []string{"10.1.0.2"}, CreatedAt: noon.Add(-time.Minute),
	}}, in.Plan.View.Sandboxes...)
}

func inNew(c observed.Container) observed.Container {
	c.SandboxID = "s1"
	return c
}

func terminated(in *podstatus.Input) { in.Plan.Life = podlife.Terminated }

func all(fs ...func(*podstatus.Input)) func(*podstatus.Input) {
	return func(in *podstatus.Input) {
		for _, f := range fs {
			f(in)
		}
	}
}

func undetailed(c observed.Container) observed.Container {
	return observed.Container{ID: c.ID, SandboxID: c.SandboxID, Name: c.Name, Attempt: c.Attempt, State: c.State, CreatedAt: c.CreatedAt}
}

// TestRestartRules: the phase that containers make with policies and rules of
// their own (KEP-5307), and while all of a pod are restarted (KEP-5532).
func TestRestartRules(t *testing.T) {
	const (
		failed = "Ready=False PodFailed ; ContainersReady=False PodFailed "
		all42  = "AllContainersRestarting=False  "
		noBox  = "PodReadyToStartContainers=False PodSandboxNotReady pod sandbox is not ready"
	)
	unready := func(names string) string {
		s := "ContainersNotReady containers with unready status: [" + names + "]"
		return "Ready=False " + s + "; ContainersReady=False " + s
	}
	own := func(i int, p v1.ContainerRestartPolicy, action v1.ContainerRestartRuleAction, codes ...int32) func(*podstatus.Input) {
		return func(in *podstatus.Input) {
			c := &in.Plan.Pod.Spec.Containers[i]
			c.RestartPolicy = &p
			if len(codes) > 0 {
				c.RestartPolicyRules = []v1.ContainerRestartRule{{Action: action, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
					Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: codes,
				}}}
			}
		}
	}
	ownInit := func(p v1.ContainerRestartPolicy, codes ...int32) func(*podstatus.Input) {
		return func(in *podstatus.Input) {
			own(0, p, v1.ContainerRestartRuleActionRestart, codes...)(in)
			from, to := &in.Plan.Pod.Spec.Containers[0], &in.Plan.Pod.Spec.InitContainers[0]
			to.RestartPolicy, to.RestartPolicyRules, from.RestartPolicy, from.RestartPolicyRules = from.RestartPolicy, from.RestartPolicyRules, nil, nil
		}
	}
	second := func(in *podstatus.Input) {
		in.Plan.Pod.Spec.Containers = append(in.Plan.Pod.Spec.Containers, v1.Container{Name: "b", Image: "img:1"})
	}
	never := policy(v1.RestartPolicyNever)
	restart, restartAll := v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers
	fresh := func(name string) observed.Container {
		c := running(name, 1)
		c.CreatedAt, c.StartedAt = noon.Add(-time.Second), noon.Add(-time.Second)
		return c
	}
	stop := podlife.Stop{At: noon, Grace: 30 * time.Second}
	for _, c := range []struct {
		name  string
		steps steps
		want  string
	}{
		{"own Always in a pod of Never", steps{all(never, own(0, v1.ContainerRestartPolicyAlways, restart), containers(exited("a", 0, 1)))},
			"Running; " + unready("a") + "; a ended 1 Error"},
		{"own Never in a pod of Always", steps{all(own(0, v1.ContainerRestartPolicyNever, restart), containers(exited("a", 0, 1)), ending(stop), sandboxDown)},
			"Failed; " + noBox + "; " + failed + "; a ended 1 Error"},
		{"own OnFailure in a pod of Always, well", steps{all(own(0, v1.ContainerRestartPolicyOnFailure, restart), containers(exited("a", 0, 0)), ending(stop), sandboxDown)},
			"Succeeded; " + noBox + "; Initialized=True PodCompleted ; Ready=False PodCompleted ; ContainersReady=False PodCompleted ; a ended 0 Completed"},
		{"one has ended for good, another comes again", steps{all(second, never, own(1, v1.ContainerRestartPolicyAlways, restart), containers(exited("a", 0, 1), exited("b", 0, 0)))},
			"Running; " + unready("a b") + "; a ended 1 Error; b ended 0 Completed"},
		{"one has ended for good, another runs", steps{all(second, own(0, v1.ContainerRestartPolicyNever, restart), containers(exited("a", 0, 1), running("b", 0)))},
			"Running; " + unready("a") + "; a ended 1 Error; b runs started ready"},
		{"a rule matches", steps{all(never, own(0, v1.ContainerRestartPolicyNever, restart, 42), containers(exited("a", 0, 42)))},
			"Running; " + unready("a") + "; a ended 42 Error"},
		{"no rule matches", steps{all(own(0, v1.ContainerRestartPolicyNever, restart, 42), containers(exited("a", 0, 1)), ending(stop), sandboxDown)},
			"Failed; " + noBox + "; " + failed + "; a ended 1 Error"},
		{"a rule matches an init container of a pod of Never", steps{all(never, addInit("i"), ownInit(v1.ContainerRestartPolicyNever, 7), containers(exited("i", 0, 7)))},
			"Pending; Initialized=False ContainersNotInitialized containers with incomplete status: [i]; " + unready("a") + "; i ended 7 Error; a waits PodInitializing"},
		{"own Never of an init container in a pod of Always", steps{all(addInit("i"), ownInit(v1.ContainerRestartPolicyNever), containers(exited("i", 0, 1)), ending(stop), sandboxDown)},
			"Failed; " + noBox + "; Initialized=False ContainersNotInitialized containers with incomplete status: [i]; " + failed + "; i ended 1 Error; a waits PodInitializing"},
		{"a pod that could restart all", steps{own(0, v1.ContainerRestartPolicyNever, restartAll, 42)}, "Running; " + all42 + "; a runs started ready"},
		{"all are being restarted: one still lives", steps{func(*podstatus.Input) {}, all(second, never, own(0, v1.ContainerRestartPolicyNever, restartAll, 42),
			containers(exited("a", 0, 42), running("b", 0)))},
			"Running; " + unready("a") + "; AllContainersRestarting=True RestartAllContainersStarted a container exited, and its restartPolicyRules restart all containers; " +
				"a ended 42 Error; b runs started ready"},
		{"all are being restarted: the other was killed", steps{func(*podstatus.Input) {}, all(second, never, own(0, v1.ContainerRestartPolicyNever, restartAll, 42),
			containers(exited("a", 0, 42), exited("b", 0, 137)))},
			"Running; " + unready("a b") + "; AllContainersRestarting=True RestartAllContainersStarted a container exited, and its restartPolicyRules restart all containers; " +
				"a ended 42 Error; b ended 137 Error"},
		{"all are being restarted: the first is there again", steps{func(*podstatus.Input) {}, all(second, never, own(0, v1.ContainerRestartPolicyNever, restartAll, 42),
			containers(fresh("a"), exited("a", 0, 42), exited("b", 0, 137)))},
			"Running; " + unready("b") + "; " + all42 + "; a runs last ended 42 Error restarts 1 started ready; b ended 137 Error"},
		{"all were restarted", steps{func(*podstatus.Input) {}, all(second, never, own(0, v1.ContainerRestartPolicyNever, restartAll, 42),
			containers(fresh("a"), exited("a", 0, 42), fresh("b"), exited("b", 0, 137)))},
			"Running; " + all42 + "; a runs last ended 42 Error restarts 1 started ready; b runs last ended 137 Error restarts 1 started ready"},
		{"all were restarted, and the pod has ended", steps{func(*podstatus.Input) {}, all(never, own(0, v1.ContainerRestartPolicyNever, restartAll, 42),
			containers(exited("a", 1, 1), exited("a", 0, 42)), ending(stop), sandboxDown)},
			"Failed; " + noBox + "; " + failed + "; AllContainersRestarting=False PodFailed ; a ended 1 Error last ended 42 Error restarts 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			check.Equal(t, brief(lastOf(c.steps)), c.want, "got")
		})
	}
}

func TestCompute(t *testing.T) {
	const (
		unready  = "Ready=False ContainersNotReady containers with unready status: [a]; ContainersReady=False ContainersNotReady containers with unready status: [a]"
		failed   = "Ready=False PodFailed ; ContainersReady=False PodFailed "
		done     = "Initialized=True PodCompleted ; Ready=False PodCompleted ; ContainersReady=False PodCompleted "
		down     = "PodReadyToStartContainers=False PodSandboxNotReady pod sandbox is not ready"
		backOff  = "back-off 10s restarting failed container=a pod=web_default(u1)"
		wellA    = "a runs started ready"
		notReady = "Running; " + unready + "; a runs started"
	)
	stop := podlife.Stop{At: noon, Grace: 30 * time.Second}
	evicted := podlife.Stop{At: noon, Grace: 0, Fail: true, Reason: "Evicted", Message: "The node was low on resource: memory."}
	disrupted := evicted
	disrupted.Disruption = "The node was low on resource: memory."
	preempted := podlife.Stop{At: noon, Fail: true, Reason: "Preempting", Message: "for another", ByExit: true}
	created := running("a", 0)
	created.State, created.StartedAt = observed.ContainerCreated, time.Time{}
	unknown := running("a", 0)
	unknown.State = observed.ContainerUnknown
	for _, c := range []struct {
		name  string
		steps steps
		want  string
	}{
		{"runs", steps{}, "Running; " + wellA},
		{"new", steps{all(containers(), func(in *podstatus.Input) { in.Plan.View.Sandboxes = nil })},
			"Pending; PodReadyToStartContainers=False PodSandboxNotReady no pod sandbox exists; " + unready + "; a waits ContainerCreating"},
		{"created", steps{containers(created)}, "Pending; " + unready + "; a waits ContainerCreating"},
		{"image can't be pulled", steps{all(containers(), func(in *podstatus.Input) {
			in.Plan.Images.Set("a", imagepull.Status{State: imagepull.Failed, Image: "img:1", Reason: "ImagePullBackOff", Message: `Back-off pulling image "img:1"`})
		})}, "Pending; " + unready + `; a waits ImagePullBackOff(Back-off pulling image "img:1")`},

		{"crashed once, is about to be restarted", steps{func(*podstatus.Input) {}, containers(exited("a", 0, 1))}, "Running; " + unready + "; a ended 1 Error"},
		{"crash loop", steps{containers(exited("a", 1, 1), exited("a", 0, 2))},
			"Running; " + unready + "; a waits CrashLoopBackOff(" + backOff + ") last ended 1 Error restarts 1"},
		{"restarted", steps{containers(running("a", 1), exited("a", 0, 2))}, "Running; a runs last ended 2 Error restarts 1 started ready"},
		{"restarted, how it ended is not read", steps{containers(running("a", 1), undetailed(exited("a", 0, 2)))}, "Running; a runs restarts 1 started ready"},
		{"restarted, the dead one was seen and is removed", steps{containers(exited("a", 0, 2)), containers(running("a", 1))},
			"Running; a runs last ended 2 Error restarts 1 started ready"},
		{"the runtime lost its memory", steps{containers(running("a", 5)), containers(running("a", 0))}, "Running; a runs last ended 137 ContainerStatusUnknown restarts 5 started ready"},
		{"exited, not read how", steps{func(*podstatus.Input) {}, containers(undetailed(exited("a", 0, 1)))}, "Running; " + unready + "; a runs"},
		{"an older view", steps{containers(exited("a", 0, 1)), containers(running("a", 0))}, "Running; " + unready + "; a ended 1 Error"},
		{"removed behind our back", steps{func(*podstatus.Input) {}, containers()},
			"Running; " + unready + "; a waits ContainerCreating last ended 137 ContainerStatusUnknown restarts 1"},
		{"lost by the runtime", steps{func(*podstatus.Input) {}, containers(unknown)},
			"Running; " + unready + "; a waits ContainerCreating last ended 137 ContainerStatusUnknown"},
		{"not looked yet", steps{func(*podstatus.Input) {}, all(containers(), func(in *podstatus.Input) { in.Plan.Known, in.Plan.View.Sandboxes = false, nil })},
			"Running; " + wellA},

		{"readiness probe has not answered", steps{health(probe.Health{Readiness: probe.Unknown})}, notReady},
		{"readiness probe fails", steps{health(probe.Health{Readiness: probe.Failure})}, notReady},
		{"readiness probe succeeds", steps{health(probe.Health{Readiness: probe.Success})}, "Running; " + wellA},
		{"readiness is kept until a probe answers again", steps{health(probe.Health{Readiness: probe.Success}), health(probe.Health{Readiness: probe.Unknown})}, "Running; " + wellA},
		{"startup probe has not answered", steps{health(probe.Health{Startup: probe.Unknown})}, "Running; " + unready + "; a runs"},
		{"liveness doesn't matter", steps{health(probe.Health{Liveness: probe.Failure})}, "Running; " + wellA},

		{"readiness gate is missing", steps{gate("")}, "Running; Ready=False ReadinessGatesNotReady corresponding condition of pod readiness gate \"example.com/lb\" does not exist.; " + wellA},
		{"readiness gate is closed", steps{gate(v1.ConditionFalse)}, "Running; example.com/lb=False  ; Ready=False ReadinessGatesNotReady the status of pod readiness gate \"example.com/lb\" is not \"True\", but False; " + wellA},
		{"readiness gate is open", steps{gate(v1.ConditionTrue)}, "Running; " + wellA},

		{"init runs", steps{all(addInit("i"), containers(running("i", 0)))},
			"Pending; Initialized=False ContainersNotInitialized containers with incomplete status: [i]; " + unready + "; i runs started; a waits PodInitializing"},
		{"init failed, is tried again", steps{all(addInit("i"), containers(exited("i", 0, 1)))},
			"Pending; Initialized=False ContainersNotInitialized containers with incomplete status: [i]; " + unready + "; i ended 1 Error; a waits PodInitializing"},
		{"init failed for good", steps{all(policy(v1.RestartPolicyNever), addInit("i"), containers(exited("i", 0, 1)), ending(stop), sandboxDown)},
			"Failed; " + down + "; Initialized=False ContainersNotInitialized containers with incomplete status: [i]; " + failed + "; i ended 1 Error; a waits PodInitializing"},
		{"init out of memory, code 0, is tried again", steps{all(addInit("i"), containers(outOfMemory("i")))},
			"Pending; Initialized=False ContainersNotInitialized containers with incomplete status: [i]; " + unready + "; i ended 0 OOMKilled; a waits PodInitializing"},
		{"init out of memory, code 0, of policy OnFailure", steps{all(policy(v1.RestartPolicyOnFailure), addInit("i"), containers(outOfMemory("i")))},
			"Pending; Initialized=False ContainersNotInitialized containers with incomplete status: [i]; " + unready + "; i ended 0 OOMKilled; a waits PodInitializing"},
		{"init out of memory, code 0, for good", steps{all(policy(v1.RestartPolicyNever), addInit("i"), containers(outOfMemory("i")), ending(stop), sandboxDown)},
			"Failed; " + down + "; Initialized=False ContainersNotInitialized containers with incomplete status: [i]; " + failed + "; i ended 0 OOMKilled; a waits PodInitializing"},
		{"init out of memory, code 0, beside main", steps{all(policy(v1.RestartPolicyNever), addInit("i"), containers(running("a", 0), outOfMemory("i")))},
			"Running; i ended 0 OOMKilled; " + wellA},
		{"main out of memory, code 0", steps{all(policy(v1.RestartPolicyOnFailure), containers(outOfMemory("a")), ending(stop), sandboxDown)},
			"Succeeded; " + down + "; " + done + "; a ended 0 OOMKilled"},
		{"init done", steps{all(addInit("i"), containers(running("a", 0), exited("i", 0, 0)))}, "Running; i ended 0 Completed ready; " + wellA},
		{"init done and removed", steps{addInit("i")}, "Running; i ended 0 Completed ready; " + wellA},
		{"sidecar runs", steps{all(addSidecar("s"), containers(running("a", 0), running("s", 0)))}, "Running; s runs started ready; " + wellA},
		{"sidecar crashed", steps{all(addSidecar("s"), containers(running("a", 0), exited("s", 0, 1)))},
			"Running; Ready=False ContainersNotReady containers with unready status: [s]; ContainersReady=False ContainersNotReady containers with unready status: [s]; s ended 1 Error; " + wellA},
		{"init was removed, and comes back", steps{addInit("i"), containers(running("a", 0), exited("i", 0, 0))}, "Running; i ended 0 Completed ready; " + wellA},
		{"sandbox lost: init once more", steps{all(addInit("i"), containers(running("a", 0), exited("i", 0, 0))),
			all(sandboxDown, containers(exited("a", 0, 137), exited("i", 0, 0))),
			all(newSandbox, containers(exited("a", 0, 137), inNew(running("i", 1)), exited("i", 0, 0)))},
			"Pending; " + unready + "; i runs last ended 0 Completed restarts 1 started; a waits PodInitializing last ended 137 Error"},
		{"an earlier agent has said that it is initialized", steps{func(in *podstatus.Input) {
			in.Plan.Pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodInitialized, Status: v1.ConditionTrue}}
			all(addInit("i"), containers(running("i", 1)))(in)
		}}, "Pending; " + unready + "; i runs restarts 1 started; a waits PodInitializing"},

		{"completed, still being taken down", steps{policy(v1.RestartPolicyNever), all(containers(exited("a", 0, 0)), ending(stop))}, "Running; " + done + "; a ended 0 Completed"},
		{"completed", steps{policy(v1.RestartPolicyNever), all(containers(exited("a", 0, 0)), ending(stop), sandboxDown)}, "Succeeded; " + down + "; " + done + "; a ended 0 Completed"},
		{"completed, all removed", steps{policy(v1.RestartPolicyNever), all(containers(exited("a", 0, 0)), ending(stop), sandboxDown, terminated), containers()},
			"Succeeded; " + down + "; " + done + "; a ended 0 Completed"},
		{"completed, its claims are prepared", steps{policy(v1.RestartPolicyNever), all(containers(exited("a", 0, 0)), ending(stop), sandboxDown, has(claims.Ready))},
			"Running; " + down + "; " + done + "; a ended 0 Completed"},
		{"and released", steps{policy(v1.RestartPolicyNever), all(containers(exited("a", 0, 0)), ending(stop), sandboxDown, has(claims.Released))},
			"Succeeded; " + down + "; " + done + "; a ended 0 Completed"},
		{"failed", steps{policy(v1.RestartPolicyNever), all(containers(exited("a", 0, 1)), ending(stop), sandboxDown)}, "Failed; " + down + "; " + failed + "; a ended 1 Error"},
		{"deleted, runs", steps{func(*podstatus.Input) {}, ending(stop)}, "Running; " + wellA},
		{"deleted, all ended", steps{func(*podstatus.Input) {}, all(ending(stop), containers(exited("a", 0, 0)), sandboxDown)}, "Succeeded; " + down + "; " + done + "; a ended 0 Completed"},
		{"deleted in a crash loop", steps{containers(exited("a", 1, 1), exited("a", 0, 2)), all(ending(stop), sandboxDown)},
			"Failed; " + down + "; " + failed + "; a ended 1 Error last ended 2 Error restarts 1"},
		{"deleted in a crash loop, its record is removed", steps{
			containers(exited("a", 1, 0), exited("a", 0, 2)), all(ending(stop), sandboxDown, terminated, containers()),
		}, "Succeeded; " + down + "; " + done + "; a ended 0 Completed restarts 1"},
		{"deleted when it was made again and not started", steps{
			containers(exited("a", 0, 3)), all(ending(stop), sandboxDown, terminated, containers(inState(running("a", 1), observed.ContainerCreated), exited("a", 0, 3))),
		}, "Failed; " + down + "; " + failed + "; a ended 3 Error restarts 1"},
		{"deleted before it began", steps{containers(), all(ending(stop), sandboxDown, terminated)},
			"Failed; " + down + "; " + failed + "; a ended 137 ContainerStatusUnknown"},
		{"evicted, runs", steps{func(*podstatus.Input) {}, ending(evicted)}, "Running; " + failed + "; " + wellA},
		{"evicted, the condition comes at once", steps{func(*podstatus.Input) {}, ending(disrupted)},
			"Running; DisruptionTarget=True TerminationByKubelet The node was low on resource: memory.; " + failed + "; " + wellA},
		{"evicted after another component said so", steps{func(in *podstatus.Input) {
			in.Plan.Pod.Status.Conditions = []v1.PodCondition{{
				Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "PreemptionByScheduler",
			}}
		}, ending(disrupted)}, "Running; DisruptionTarget=True TerminationByKubelet The node was low on resource: memory.; " + failed + "; " + wellA},
		{"evicted", steps{func(*podstatus.Input) {}, all(ending(evicted), containers(exited("a", 0, 0)), sandboxDown)},
			"Failed(Evicted: The node was low on resource: memory.); " + down + "; " + failed + "; a ended 0 Completed"},
		{"evicted stays evicted", steps{all(ending(evicted), containers(exited("a", 0, 0)), sandboxDown), func(in *podstatus.Input) { in.Plan.Stop = &stop }},
			"Failed(Evicted: The node was low on resource: memory.); " + down + "; " + failed + "; a ended 0 Completed"},
		{"preempted, and it exited with 0", steps{func(*podstatus.Input) {}, all(ending(preempted), containers(exited("a", 0, 0)), sandboxDown)},
			"Succeeded(Preempting: for another); " + down + "; " + done + "; a ended 0 Completed"},
		{"preempted, runs", steps{func(*podstatus.Input) {}, ending(preempted)}, "Running; " + failed + "; " + wellA},
		{"preempted, and it did not", steps{func(*podstatus.Input) {}, all(ending(preempted), containers(exited("a", 0, 143)), sandboxDown)},
			"Failed(Preempting: for another); " + down + "; " + failed + "; a ended 143 Error"},
		{"failed by the API", steps{func(in *podstatus.Input) {
			in.Plan.Pod.Status = v1.PodStatus{Phase: v1.PodFailed, Reason: "Why", Message: "so"}
			ending(stop)(in)
		}}, "Failed(Why: so); " + failed + "; " + wellA},
		{"static, deleted, all ended", steps{func(in *podstatus.Input) {
			in.Plan.Pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		}, all(ending(stop), containers(exited("a", 0, 0)), sandboxDown)}, "Running; " + down + "; " + unready + "; a ended 0 Completed"},

		{"ephemeral", steps{func(in *podstatus.Input) {
			in.Plan.Pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e"}}}
			in.Plan.View.Containers = append(in.Plan.View.Containers, running("e", 0))
		}}, "Running; " + wellA + "; e runs"},
		{"ephemeral, its record was removed while it ran", steps{func(in *podstatus.Input) {
			in.Plan.Pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e"}}}
			in.Plan.View.Containers = append(in.Plan.View.Containers, running("e", 0))
		}, containers(running("a", 0)), containers(running("a", 0))}, "Running; " + wellA + "; e ended 137 ContainerStatusUnknown"},
		{"ended for good, its record was removed", steps{func(in *podstatus.Input) {
			in.Plan.Pod.Spec.Containers = append(in.Plan.Pod.Spec.Containers, v1.Container{Name: "b", Image: "img:1"})
			policy(v1.RestartPolicyOnFailure)(in)
			containers(running("a", 0), exited("b", 1, 0), exited("b", 0, 1))(in)
		}, containers(running("a", 0), exited("b", 0, 1)), containers(running("a", 0))}, "Running; " + strings.ReplaceAll(unready, "[a]", "[b]") +
			"; " + wellA + "; b ended 0 Completed last ended 1 Error restarts 1"},
		{"not in the spec", steps{containers(running("a", 0), running("z", 0))}, "Running; " + wellA},
	} {
		t.Run(c.name, func(t *testing.T) {
			check.Equal(t, brief(lastOf(c.steps)), c.want, "got")
		})
	}
}

// TestLostInit: an init container that the runtime has no more, of a pod that runs, has the message of a kubelet.
func TestLostInit(t *testing.T) {
	s := lastOf(steps{addInit("i")}).InitContainerStatuses[0]
	check.Equal(t, state(&s.State), "ended 0 Completed", "it has")
	check.Equal(t, s.State.Terminated.Message, "Unable to get init container status from container runtime and pod has been "+
		"initialized, treat it as exited normally", "its message")
}

// TestLacks: why a pod can't start containers, and since when that is known.
func TestLacks(t *testing.T) {
	box := func(change func(*observed.Sandbox)) func(*podstatus.Input) {
		return func(in *podstatus.Input) {
			in.Plan.View.Containers = nil
			change(&in.Plan.View.Sandboxes[0])
		}
	}
	host := func(in *podstatus.Input) { in.Plan.Pod.Spec.HostNetwork = true }
	noAddress := func(s *observed.Sandbox) { s.IPs = nil }
	for _, c := range []struct {
		name  string
		steps steps
		want  string
	}{
		{"well", steps{box(func(*observed.Sandbox) {})}, ""},
		{"none", steps{func(in *podstatus.Input) { in.Plan.View = observed.Pod{} }}, "no pod sandbox exists"},
		{"not ready", steps{box(func(s *observed.Sandbox) { s.State = observed.SandboxNotReady })}, "pod sandbox is not ready"},
		{"stopped", steps{func(in *podstatus.Input) { in.Plan.SandboxStopped = map[string]bool{"s0": true} }}, "pod sandbox is not ready"},
		{"not inspected", steps{box(func(s *observed.Sandbox) { s.Detailed, s.IPs = false, nil })}, "pod sandbox is not ready"},
		{"not inspected by this agent", steps{func(*podstatus.Input) {}, box(func(s *observed.Sandbox) { s.Detailed, s.IPs = false, nil })}, ""},
		{"no address", steps{box(noAddress)}, "pod sandbox has no IP address"},
		{"it needs none", steps{all(host, box(func(s *observed.Sandbox) { s.IPs, s.HostNetwork = nil, true }))}, ""},
		{"of another network", steps{all(host, box(noAddress))}, "network namespace mode changed and sandbox needs to be recreated"},
		{"no volumes", steps{all(box(func(*observed.Sandbox) {}), func(in *podstatus.Input) { in.Plan.Volumes = volumeplan.Volumes{} })},
			"the volumes of the pod are not mounted yet"},
	} {
		got := podstatus.FindCondition(lastOf(c.steps).Conditions, v1.PodReadyToStartContainers)
		status, reason := v1.ConditionTrue, ""
		if c.want != "" {
			status, reason = v1.ConditionFalse, "PodSandboxNotReady"
		}
		if got.Status != status || got.Reason != reason || got.Message != c.want {
			t.Errorf("%s: %s %q %q, want %s %q %q", c.name, got.Status, got.Reason, got.Message, status, reason, c.want)
		}
	}
}

// lastOf is the status after the last of the steps.
func lastOf(all steps) *v1.PodStatus {
	if len(all) == 0 {
		all = steps{func(*podstatus.Input) {}}
	}
	in := baseInput()
	var s v1.PodStatus
	for _, f := range all {
		f(&in)
		in.Out = podplan.Plan(in.Plan)
		s = podstatus.Compute(in)
		kept := s
		in.Previous, in.Plan.Status = &kept, &kept
	}
	return &s
}

func health(h probe.Health) func(*podstatus.Input) {
	return func(in *podstatus.Input) { in.Plan.Health = map[string]probe.Health{"a0": h} }
}

func gate(status v1.ConditionStatus) func(*podstatus.Input) {
	return func(in *podstatus.Input) {
		in.Plan.Pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "example.com/lb"}}
		if status != "" {
			in.Plan.Pod.Status.Conditions = []v1.PodCondition{{Type: "example.com/lb", Status: status}}
		}
	}
}

// TestWholeStatus holds every field of a plain pod's status, as the API has it.
func TestWholeStatus(t *testing.T) {
	in := baseInput()
	in.HostIPs = []string{"192.0.2.1", "2001:db8::1"}
	in.Plan.View.Sandboxes[0].IPs = []string{"fd00::1", "10.1.0.1"}
	c := &in.Plan.Pod.Spec.Containers[0]
	c.Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("100m")}
	c.VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v", ReadOnly: true}}
	s := podstatus.Compute(in)
	got := check.Value(json.MarshalIndent(s, "", " "))(t)
	for _, want := range []string{
		`"observedGeneration": 3`, `"phase": "Running"`, `"hostIP": "192.0.2.1"`, `"podIP": "10.1.0.1"`,
		`"startTime": "2026-01-01T11:59:00Z"`, `"startedAt": "2026-01-01T11:59:10Z"`, `"lastTransitionTime": "2026-01-01T12:00:00Z"`,
		`"image": "img:1"`, `"imageID": "sha256:1"`, `"containerID": "containerd://a0"`, `"started": true`, `"ready": true`,
		`"qosClass": "Burstable"`, `"recursiveReadOnly": "Disabled"`, `"mountPath": "/v"`,
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if len(s.PodIPs) != 2 || s.PodIPs[1].IP != "fd00::1" || len(s.HostIPs) != 2 {
		t.Errorf("addresses: %v, %v", s.PodIPs, s.HostIPs)
	}
	var types []string
	for _, c := range s.Conditions {
		types = append(types, string(c.Type))
		check.Equal(t, c.ObservedGeneration, 3, "%s: observed generation", c.Type)
	}
	if got, want := strings.Join(types, " "), "PodReadyToStartContainers Initialized Ready ContainersReady PodScheduled"; got != want {
		t.Errorf("conditions %s, want %s", got, want)
	}
	if r := s.ContainerStatuses[0].AllocatedResources["cpu"]; r.String() != "100m" {
		t.Errorf("allocated %v", r)
	}
}

func TestTransitionTimes(t *testing.T) {
	in := baseInput()
	first := podstatus.Compute(in)
	in.Previous, in.Plan.Now = &first, noon.Add(time.Minute)
	health(probe.Health{Readiness: probe.Failure})(&in)
	second := podstatus.Compute(in)
	for i := range second.Conditions {
		c := &second.Conditions[i]
		want := noon
		if c.Type == v1.PodReady || c.Type == v1.ContainersReady {
			want = noon.Add(time.Minute)
		}
		if !c.LastTransitionTime.Time.Equal(want) {
			t.Errorf("%s since %v, want %v", c.Type, c.LastTransitionTime, want)
		}
	}
}

func TestLongMessages(t *testing.T) {
	in := baseInput()
	in.Plan.Pod.Spec.Containers = append(in.Plan.Pod.Spec.Containers, v1.Container{Name: "b"})
	c := exited("a", 0, 1)
	c.Message = strings.Repeat("ä", 12*1024)
	in.Plan.View.Containers = []observed.Container{c}
	s := podstatus.Compute(in)
	if got := s.ContainerStatuses[0].State.Terminated.Message; len(got) != 6*1024 || !strings.HasSuffix(got, "ä") {
		t.Errorf("%d bytes, ends in %q", len(got), got[len(got)-2:])
	}
}

func inState(c observed.Container, s observed.ContainerState) observed.Container {
	c.State = s
	return c
}
