package podplan

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

func TestPlanRestarts(t *testing.T) {
	policy := func(p v1.RestartPolicy) func(in *Input) { return func(in *Input) { in.Pod.Spec.RestartPolicy = p } }
	own := func(in *Input, p v1.ContainerRestartPolicy, rules ...v1.ContainerRestartRule) {
		main0(in).RestartPolicy, main0(in).RestartPolicyRules = &p, rules
	}
	rule := func(action v1.ContainerRestartRuleAction, codes ...int32) v1.ContainerRestartRule {
		return v1.ContainerRestartRule{Action: action, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: codes}}
	}
	ended := func(code int32, more ...func(*Input)) func(*Input) {
		return func(in *Input) {
			containers(in, exited("a", 0, code, 0))
			for _, f := range more {
				f(in)
			}
		}
	}
	const over = "DONE all containers have finished"
	checkPlans(t, []planCase{
		{"not read", upInput, ended(1, func(in *Input) { in.View.Containers[0].Detailed = false }), "inspect a0"},
		{"first crash", upInput, ended(1), "create a#1 in s0"},
		{"ended well", upInput, ended(0), "create a#1 in s0"},
		{"OnFailure, well", upInput, ended(0, policy(v1.RestartPolicyOnFailure)), over},
		{"OnFailure, ill", upInput, ended(1, policy(v1.RestartPolicyOnFailure)), "create a#1 in s0"},
		{"Never", upInput, ended(1, policy(v1.RestartPolicyNever)), over},
		{"own policy Always in a pod of Never", upInput, ended(1, policy(v1.RestartPolicyNever), func(in *Input) { own(in, v1.ContainerRestartPolicyAlways) }), "create a#1 in s0"},
		{"own policy Never in a pod of Always", upInput, ended(1, func(in *Input) { own(in, v1.ContainerRestartPolicyNever) }), over},
		{"a rule matches", upInput, ended(42, func(in *Input) {
			own(in, v1.ContainerRestartPolicyNever, rule(v1.ContainerRestartRuleActionRestart, 42))
		}), "create a#1 in s0"},
		{"no rule matches", upInput, ended(1, func(in *Input) {
			own(in, v1.ContainerRestartPolicyNever, rule(v1.ContainerRestartRuleActionRestart, 42))
		}), over},
		{"a rule restarts all", runInput, func(in *Input) {
			b := v1.Container{Name: "b", Image: "img:1", ImagePullPolicy: v1.PullIfNotPresent}
			in.Pod.Spec.Containers = append(in.Pod.Spec.Containers, b)
			in.Images.Set("b", in.Images.At("a"))
			own(in, v1.ContainerRestartPolicyNever, rule(v1.ContainerRestartRuleActionRestartAllContainers, 42))
			containers(in, exited("a", 0, 42, 0), alive("b", 0))
		}, "stop b0 2s; Killing! Stopping container b: all containers of the pod are restarted"},
		{"a rule restarts all, without a hook", runInput, func(in *Input) {
			b := v1.Container{Name: "b", Image: "img:1", ImagePullPolicy: v1.PullIfNotPresent, Lifecycle: &v1.Lifecycle{PreStop: hook()}}
			in.Pod.Spec.Containers = append(in.Pod.Spec.Containers, b)
			in.Images.Set("b", in.Images.At("a"))
			own(in, v1.ContainerRestartPolicyNever, rule(v1.ContainerRestartRuleActionRestartAllContainers, 42))
			containers(in, exited("a", 0, 42, 0), alive("b", 0))
		}, "stop b0 2s; Killing! Stopping container b: all containers of the pod are restarted"},
		{"a rule restarts all, all are dead", upInput, func(in *Input) {
			b := v1.Container{Name: "b", Image: "img:1", ImagePullPolicy: v1.PullIfNotPresent}
			in.Pod.Spec.Containers = append(in.Pod.Spec.Containers, b)
			in.Images.Set("b", in.Images.At("a"))
			policy(v1.RestartPolicyNever)(in)
			own(in, v1.ContainerRestartPolicyNever, rule(v1.ContainerRestartRuleActionRestartAllContainers, 42))
			containers(in, exited("a", 0, 42, time.Second), exited("b", 0, 137, 0))
		}, "create a#1 in s0; create b#1 in s0"},
		{"a sidecar's rule restarts all", upInput, func(in *Input) {
			withInit(in, true)
			in.Pod.Spec.InitContainers[1].RestartPolicyRules = []v1.ContainerRestartRule{rule(v1.ContainerRestartRuleActionRestartAllContainers, 42)}
			policy(v1.RestartPolicyNever)(in)
			containers(in, exited("a", 0, 137, 0), exited("i", 0, 0, 3*time.Second), exited("s", 0, 42, time.Second))
		}, "create i#1 in s0; a: PodInitializing; s: PodInitializing"},
		{"it isn't known yet whether a rule restarts all", upInput, func(in *Input) {
			b := v1.Container{Name: "b", Image: "img:1", ImagePullPolicy: v1.PullIfNotPresent}
			in.Pod.Spec.Containers = append(in.Pod.Spec.Containers, b)
			in.Images.Set("b", in.Images.At("a"))
			own(in, v1.ContainerRestartPolicyNever, rule(v1.ContainerRestartRuleActionRestartAllContainers, 42))
			containers(in, exited("a", 0, 42, 0))
			in.View.Containers[0].Detailed = false
		}, "inspect a0; b: ContainerCreating"},
		{"second crash", upInput, func(in *Input) {
			containers(in, exited("a", 1, 1, 4*time.Second), exited("a", 0, 1, 10*time.Second))
		}, "a: CrashLoopBackOff; BackOff! Back-off restarting failed container a in pod web_default(u1); wake +6s"},
		{"second crash, noted", upInput, func(in *Input) {
			containers(in, exited("a", 1, 1, 4*time.Second))
			in.Crash = map[string]backoff.Crash{"a": {Attempt: 1, Delay: 10 * time.Second, Noted: true}}
		}, "a: CrashLoopBackOff; wake +6s"},
		{"second crash, waited for", upInput, func(in *Input) { containers(in, exited("a", 1, 1, 10*time.Second)) }, "create a#2 in s0"},
		{"tenth crash", upInput, func(in *Input) { containers(in, exited("a", 9, 1, 0)) },
			"a: CrashLoopBackOff; BackOff! Back-off restarting failed container a in pod web_default(u1); wake +5m0s"},
		{"tenth crash, after it ran for long", upInput, func(in *Input) {
			containers(in, exited("a", 9, 1, 0))
			in.View.Containers[0].StartedAt = t0.Add(-10 * time.Minute)
		}, "create a#10 in s0"},
		{"the clock was set back", upInput, func(in *Input) { containers(in, exited("a", 1, 1, -time.Hour)) }, "create a#2 in s0"},
		{"image of the earlier attempt will do", upInput, ended(1), "create a#1 in s0"},
		{"image is pulled anew", upInput, ended(1, func(in *Input) { main0(in).ImagePullPolicy = v1.PullAlways }), "image a#1"},
		{"two incarnations live", upInput, func(in *Input) { containers(in, alive("a", 1), alive("a", 0)) },
			"stop a0 30s; a: ContainerCreating; Killing! Stopping container a"},
		{"lost by the runtime", upInput, func(in *Input) { c := alive("a", 0); c.State = observed.ContainerUnknown; containers(in, c) },
			"stop a0 30s; a: ContainerCreating; Killing! Container is in \"unknown\" state, try killing it before restart"},
		{"lost, and stopped", upInput, func(in *Input) {
			c := alive("a", 0)
			c.State = observed.ContainerUnknown
			containers(in, c)
			in.Stopped = map[string]time.Time{"a0": t0}
			policy(v1.RestartPolicyNever)(in)
		}, "create a#1 in s0"},
	})
}

// TestPlanUnrecorded: where the runtime has no record of a container, the last status says whether it
// has ended for good.
func TestPlanUnrecorded(t *testing.T) {
	const over = "DONE all containers have finished"
	ended := func(code int32) v1.ContainerState {
		at := metav1.Time{Time: t0.Add(-time.Minute)}
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, StartedAt: at, FinishedAt: at}}
	}
	runs := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	waits := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	shown := func(name string, count int32, s v1.ContainerState, more ...func(*Input)) func(*Input) {
		return func(in *Input) {
			if in.Status == nil {
				in.Status = &v1.PodStatus{}
			}
			in.Status.ContainerStatuses = append(in.Status.ContainerStatuses,
				v1.ContainerStatus{Name: name, ContainerID: "containerd://" + name + string(rune('0'+count)), RestartCount: count, State: s})
			for _, f := range more {
				f(in)
			}
		}
	}
	policy := func(p v1.RestartPolicy) func(in *Input) { return func(in *Input) { in.Pod.Spec.RestartPolicy = p } }
	never, onFailure := policy(v1.RestartPolicyNever), policy(v1.RestartPolicyOnFailure)
	// stays is another container, which runs.
	stays := func(in *Input) {
		in.Pod.Spec.Containers = append(in.Pod.Spec.Containers, v1.Container{Name: "b", Image: "img:1", ImagePullPolicy: v1.PullIfNotPresent})
		in.View.Containers = append(in.View.Containers, alive("b", 0))
	}
	own := func(p v1.ContainerRestartPolicy, code int32) func(*Input) {
		return func(in *Input) {
			main0(in).RestartPolicy = &p
			main0(in).RestartPolicyRules = []v1.ContainerRestartRule{{
				Action: v1.ContainerRestartRuleActionRestart, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
					Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{code},
				},
			}}
		}
	}
	ephemeral := func(s v1.ContainerState, count int32) func(*Input) {
		return func(in *Input) {
			in.Pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
				Name: "e", Image: "img:1", ImagePullPolicy: v1.PullIfNotPresent,
			}}}
			in.Images.Set("e", in.Images.At("a"))
			in.Status = &v1.PodStatus{EphemeralContainerStatuses: []v1.ContainerStatus{{Name: "e", State: s, RestartCount: count}}}
		}
	}
	nothing := func(in *Input) { in.View = observed.Pod{} }
	checkPlans(t, []planCase{
		{"Never, ill", upInput, shown("a", 0, ended(1), never), over},
		{"Never, beside one that runs", upInput, shown("a", 0, ended(0), never, stays), ""},
		{"Never, and the runtime has nothing of the pod", upInput, shown("a", 0, ended(0), never, nothing), over},
		{"Never, and it was running", upInput, shown("a", 0, runs, never), "create a#1 in s0; a: ContainerCreating"},
		{"Never, and it never ran", upInput, shown("a", 0, waits, never), "create a#1 in s0; a: ContainerCreating"},
		{"Never, and nobody has seen how it ended", upInput, shown("a", 0, v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode: 137, Reason: podspec.StatusUnknown}}, never), "create a#1 in s0; a: ContainerCreating"},
		{"OnFailure, well", upInput, shown("a", 0, ended(0), onFailure, stays), ""},
		{"OnFailure, ill", upInput, shown("a", 0, ended(1), onFailure, stays), "create a#1 in s0; a: ContainerCreating"},
		{"Always", upInput, shown("a", 0, ended(0), stays), "create a#1 in s0; a: ContainerCreating"},
		{"own Never in a pod of Always", upInput, shown("a", 0, ended(1), own(v1.ContainerRestartPolicyNever, 42), stays), ""},
		{"own Never, a rule matches", upInput, shown("a", 0, ended(42), own(v1.ContainerRestartPolicyNever, 42), stays),
			"create a#1 in s0; a: ContainerCreating"},
		{"the record of an earlier one is left", upInput, shown("a", 1, ended(0), onFailure, stays, func(in *Input) {
			in.View.Containers = append(in.View.Containers, exited("a", 0, 1, time.Minute))
			in.View.Sort()
		}), ""},
		{"the record of the last one is there", upInput, shown("a", 1, ended(0), onFailure, stays, func(in *Input) {
			in.View.Containers = append(in.View.Containers, exited("a", 1, 1, time.Minute))
			in.View.Sort()
		}), "create a#2 in s0"},
		{"all are restarted since", upInput, shown("a", 0, ended(0), never, stays, func(in *Input) {
			in.View.Containers = []observed.Container{exited("b", 0, 42, 0)}
			p := v1.ContainerRestartPolicyNever
			in.Pod.Spec.Containers[1].RestartPolicy = &p
			in.Pod.Spec.Containers[1].RestartPolicyRules = []v1.ContainerRestartRule{{
				Action: v1.ContainerRestartRuleActionRestartAllContainers, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
					Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42},
				},
			}}
			in.Images.Set("b", in.Images.At("a"))
		}), "create a#1 in s0; create b#1 in s0; a: ContainerCreating"},
		{"a sidecar", upInput, func(in *Input) {
			withInit(in, true)
			shown("s", 0, ended(0), never)(in)
			containers(in, alive("a", 0), exited("i", 0, 0, 0))
		}, "create s#1 in s0; s: PodInitializing"},
		{"an init container, in another sandbox", upInput, func(in *Input) {
			withInit(in, false)
			shown("i", 0, ended(0), never)(in)
		}, "create i#1 in s0; a: PodInitializing; i: PodInitializing"},
		{"an ephemeral container that has ended", runInput, ephemeral(ended(0), 0), ""},
		{"an ephemeral container that ran", runInput, ephemeral(runs, 0), ""},
		{"an ephemeral container that never ran", runInput, ephemeral(waits, 0), "create e#0 in s0; e: ContainerCreating"},
	})
}
