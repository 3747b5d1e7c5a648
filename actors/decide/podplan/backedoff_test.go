package podplan

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestKills: container a is killed by its liveness probe again and again, or ends by itself. Each step is how long it
// lives, in seconds, with ! if it ends by itself, and what it says is how long it then waits. A kubelet counts so
// (kuberuntime SyncPod: it kills and starts with the status from before the kill).
func TestKills(t *testing.T) {
	for _, c := range []struct{ lives, want string }{
		{"60 60 60 60 60 60 60 60", "0 0 0 0 0 80 160 300"},
		{"240 240 240 240 240 240 240 240 240", "0 0 0 0 0 0 0 300 0"},
		{"700 700 700 700", "0 0 0 0"},
		{"5 5 5 5", "0 0 10 20"},
		{"60! 60! 60! 60!", "0 10 20 40"},
		{"60 60! 60! 60", "0 0 10 0"},
		{"60! 60 60 60!", "0 0 0 40"},
	} {
		in := runInput()
		in.View.Containers = nil
		now, got := t0, []string{}
		for i, life := range strings.Fields(c.lives) {
			seconds := check.Value(strconv.Atoi(strings.TrimSuffix(life, "!")))(t)
			n := alive("a", uint32(i))
			n.CreatedAt, n.StartedAt = now, now
			now = now.Add(time.Duration(seconds) * time.Second)
			n.State, n.FinishedAt = observed.ContainerExited, now
			in.View.Containers = append([]observed.Container{n}, in.View.Containers[:min(i, 1)]...)
			if !strings.HasSuffix(life, "!") {
				in.Stopped = map[string]time.Time{n.ID: now}
			}
			in.Now = now
			out := Plan(in)
			wait := time.Duration(0)
			if len(out.Actions) == 0 {
				wait = out.Wake.Sub(now)
				in.Crash, in.Now = out.Crash, out.Wake
				out = Plan(in)
			}
			if len(out.Actions) != 1 || word(out.Actions[0]) != fmt.Sprintf("create a#%d in s0", i+1) {
				t.Fatalf("%s: %s", c.lives, said(out))
			}
			now, in.Crash = in.Now, out.Crash
			got = append(got, fmt.Sprint(int(wait.Seconds())))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("lives %s:\n waits %s\n want  %s", c.lives, s, c.want)
		}
	}
}

// TestPlanKilled: what counts as stopped while the pod goes on.
func TestPlanKilled(t *testing.T) {
	const waits = "a: CrashLoopBackOff; BackOff! Back-off restarting failed container a in pod web_default(u1); wake +10s"
	second := func(in *Input) {
		containers(in, exited("a", 1, 137, 0), exited("a", 0, 137, time.Minute))
		in.Crash = map[string]backoff.Crash{"a": {}}
	}
	with := func(f func(*Input)) func(*Input) { return func(in *Input) { second(in); f(in) } }
	failed := map[string]probe.Health{"a1": {Liveness: probe.Failure}}
	checkPlans(t, []planCase{
		{"it ended by itself", upInput, second, waits},
		{"its probe failed, and it had ended already", upInput, with(func(in *Input) { in.Health = failed }), waits},
		{"it was stopped", upInput, with(func(in *Input) { in.Stopped = map[string]time.Time{"a1": t0} }), "create a#2 in s0"},
		{"it is being stopped", upInput, with(func(in *Input) { in.KillAt = map[string]time.Time{"a1": t0} }), "create a#2 in s0"},
		{"a stop of it failed", upInput, with(func(in *Input) { failedLane(in, Lane{Kind: LaneStop, Name: "a1"}, 1, 0, "") }),
			"create a#2 in s0"},
		{"it ended in its preStop hook", upInput, with(func(in *Input) {
			in.Hooks = map[string]Hooks{"a1": {PreStop: HookRunning, PreStopAt: t0}}
		}), "create a#2 in s0"},
		{"an agent wrote down that it stops it", upInput, with(func(in *Input) {
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
			notes(in, "a1", podlife.ProbeFailed, true)
		}), "create a#2 in s0"},
		{"it had ended before its stop", upInput, with(func(in *Input) {
			in.Now, in.Stopped = t0.Add(time.Second), map[string]time.Time{"a1": t0.Add(time.Second)}
			in.StopBegan = map[string]time.Time{"a1": t0.Add(time.Millisecond)}
		}), waits},
		{"it ended after its stop, and the clock was set back in between", upInput, with(func(in *Input) {
			in.Stopped, in.StopBegan = map[string]time.Time{"a1": t0}, map[string]time.Time{"a1": t0.Add(time.Hour)}
		}), "create a#2 in s0"},
		{"it ended as it was asked to stop", upInput, with(func(in *Input) {
			in.Stopped, in.StopBegan = map[string]time.Time{"a1": t0}, map[string]time.Time{"a1": t0}
		}), "create a#2 in s0"},
		{"it had ended before its preStop hook", upInput, with(func(in *Input) {
			in.Hooks = map[string]Hooks{"a1": {PreStop: HookFailed, PreStopAt: t0.Add(time.Millisecond)}}
			in.Now, in.StopBegan = t0.Add(time.Second), map[string]time.Time{"a1": t0.Add(time.Second)}
		}), waits},
		{"its postStart hook failed", upInput, with(func(in *Input) {
			in.Stopped = map[string]time.Time{"a1": t0}
			in.Hooks = map[string]Hooks{"a1": {PostStart: HookFailed, Message: "no"}}
		}), strings.Replace(waits, "CrashLoopBackOff", "PostStartHookError", 1)},
		{"it did not live long enough", upInput, with(func(in *Input) {
			in.Stopped = map[string]time.Time{"a1": t0}
			in.Crash = map[string]backoff.Crash{"a": {Delay: 40 * time.Second}}
		}), "a: CrashLoopBackOff; BackOff! Back-off restarting failed container a in pod web_default(u1); wake +1m20s"},
		{"it waits, and the record of the one before is removed", upInput, func(in *Input) {
			containers(in, exited("a", 1, 137, 0))
			in.Stopped = map[string]time.Time{"a1": t0}
			in.Crash = map[string]backoff.Crash{"a": {Attempt: 1, Delay: 40 * time.Second, Noted: true}}
		}, "a: CrashLoopBackOff; wake +40s"},
		{"it need not wait, and its image was not there at first", upInput, func(in *Input) {
			containers(in, exited("a", 1, 137, time.Second))
			in.Stopped = map[string]time.Time{"a1": t0}
			in.Crash = map[string]backoff.Crash{"a": {Attempt: 1, Delay: 40 * time.Second, AtOnce: true}}
		}, "create a#2 in s0"},
		{"the end before is not read yet", upInput, with(func(in *Input) {
			in.Stopped = map[string]time.Time{"a1": t0}
			in.View.Containers[1].Detailed = false
		}), "inspect a0"},
	})
}

// TestPlanFailedHook: why a hook failed is shown for a while, and then what the container waits for.
func TestPlanFailedHook(t *testing.T) {
	in := upInput()
	containers(&in, exited("a", 2, 137, 0))
	in.Hooks = map[string]Hooks{"a2": {PostStart: HookFailed, Message: `command "x" exited with 1`}}
	out := Plan(in)
	if w := out.Waiting.At("a"); w.Reason != "PostStartHookError" || w.Message != `command "x" exited with 1` {
		t.Errorf("it waits: %+v", w)
	}
	if !out.Wake.Equal(t0.Add(10 * time.Second)) {
		t.Errorf("wake at %v", out.Wake)
	}
	in.Now, in.Crash = out.Wake, out.Crash
	if w := Plan(in).Waiting.At("a"); w.Reason != "CrashLoopBackOff" {
		t.Errorf("later it waits: %+v", w)
	}
}

// TestPlanLeaves: a pod of which no container is restarted ends when the last one fails its probe, and not when it is
// dead: its sidecars are not restarted meanwhile.
func TestPlanLeaves(t *testing.T) {
	const over = "DONE the last container is stopped, and not restarted"
	fails := func(in *Input) {
		in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
		in.Health = map[string]probe.Health{"a0": {Liveness: probe.Failure}}
	}
	two := func(b observed.Container) func(*Input) {
		return func(in *Input) {
			fails(in)
			in.Pod.Spec.Containers = append(in.Pod.Spec.Containers,
				v1.Container{Name: "b", Image: "img:1", ImagePullPolicy: v1.PullIfNotPresent})
			in.View.Containers = append(in.View.Containers, b)
		}
	}
	checkPlans(t, []planCase{
		{"Never", runInput, fails, over},
		{"startup probe", runInput, func(in *Input) {
			fails(in)
			in.Health = map[string]probe.Health{"a0": {Startup: probe.Failure}}
		}, over},
		{"its preStop hook runs already", runInput, func(in *Input) {
			fails(in)
			in.Health = nil
			main0(in).Lifecycle = &v1.Lifecycle{PreStop: hook()}
			in.Hooks = map[string]Hooks{"a0": {PreStop: HookRunning, PreStopAt: t0}}
		}, over},
		{"a sidecar fails too", runInput, func(in *Input) {
			fails(in)
			withInit(in, true)
			in.View.Containers = append(in.View.Containers, alive("s", 0))
			in.Health["s0"] = probe.Health{Liveness: probe.Failure}
		}, over},
		{"another has finished", runInput, two(exited("b", 0, 0, 0)), over},
		{"another runs", runInput, two(alive("b", 0)), "stop a0 30s; Killing! Container a failed liveness probe"},
		{"OnFailure", runInput, func(in *Input) { fails(in); in.Pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure },
			"note a0 ProbeFailed"},
		{"a rule on its exit code may restart it", runInput, func(in *Input) {
			fails(in)
			main0(in).RestartPolicy = new(v1.ContainerRestartPolicyNever)
			main0(in).RestartPolicyRules = []v1.ContainerRestartRule{{}}
		}, "stop a0 30s; Killing! Container a failed liveness probe"},
		{"its image was changed", runInput, func(in *Input) {
			fails(in)
			in.View.Containers[0].SpecHash = "0123456789abcdef"
		}, "note a0 ContainerChanged"},
		{"its postStart hook failed", runInput, func(in *Input) {
			fails(in)
			in.Hooks = map[string]Hooks{"a0": {PostStart: HookFailed}}
		}, "stop a0 30s; Killing! FailedPostStartHook"},
	})
}
