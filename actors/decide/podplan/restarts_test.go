package podplan

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/observed"
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
