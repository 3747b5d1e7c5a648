package pod_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/cri/simcri"
)

func command(words ...string) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: words}}
}

// deaf does not listen to SIGTERM, and runs commands that never end, but for "done".
func deaf() map[string]*simcri.Script {
	return map[string]*simcri.Script{"a": {IgnoreTERM: true, Exec: func(c []string) simcri.ExecAnswer {
		return simcri.ExecAnswer{Hang: c[0] != "done"}
	}}}
}

func lived(l v1.Lifecycle) *v1.Pod {
	p := onePod("a")
	p.Spec.Containers[0].Lifecycle = &l
	p.Spec.Containers[0].LivenessProbe = &v1.Probe{}
	return p
}

// under says whether something of that kind is under way.
func (r *rig) under(kind string) bool {
	for _, e := range r.runner.InFlight(r.actor.Path()) {
		if e.Kind == kind && e.Phase == kernel.EffectStarted {
			return true
		}
	}
	return false
}

func (r *rig) told(reason string) (messages []string) {
	for _, e := range r.events {
		if e.Reason == reason {
			messages = append(messages, e.Message)
		}
	}
	return messages
}

func (r *rig) up() {
	r.T.Helper()
	r.until(time.Second, "running", r.in("a", observed.ContainerRunning, 0))
	r.Advance(time.Second)
}

// over runs until the pod has ended, took after its stop, and nothing is left.
func (r *rig) over(took time.Duration) {
	r.T.Helper()
	dead := r.in("a", observed.ContainerExited, 0)
	r.until(took+time.Second, "dead", dead)
	if got := r.Now().Sub(r.assign.Stop.At); got < took || got > took+time.Second {
		r.T.Errorf("dead after %v, want %v", got, took)
	}
	r.until(time.Second, "finished", func() bool { return r.finished })
	r.Advance(time.Second)
	if left := r.runner.InFlight(r.actor.Path()); len(left) > 0 {
		r.T.Errorf("left over: %+v", left)
	}
}

// A preStop hook that does not end in time goes on beside the stop signal, until
// its container is killed.
func TestPreStopOutlivesTheGracePeriod(t *testing.T) {
	for _, c := range []struct {
		name, kind string
		hook       *v1.LifecycleHandler
		health     simcri.Health
		event      string
	}{
		{"exec", "ExecSync", command("for", "ever"), simcri.Health{}, "PreStopHook failed"},
		{"httpGet", "HTTPGet", &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Path: "/bye", Port: intstr.FromInt32(80)}}, simcri.Health{Hang: true},
			"PreStopHook failed"},
		{"sleep", "Sleep", sleep(3600), simcri.Health{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := lived(v1.Lifecycle{PreStop: c.hook})
			p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80}}
			scripts := deaf()
			scripts["a"].Health = c.health
			r := newRig(t, p, scripts)
			r.up()
			r.stop(5 * time.Second)
			r.Advance(5*time.Second - time.Millisecond)
			if r.under("StopContainer") || !r.under(c.kind) {
				t.Fatalf("before the end of the grace period: %+v", r.runner.InFlight(r.actor.Path()))
			}
			r.Advance(2 * time.Second)
			if !r.under("StopContainer") || !r.under(c.kind) {
				t.Fatalf("when the grace period is over: %+v", r.runner.InFlight(r.actor.Path()))
			}
			if told := r.told("FailedPreStopHook"); len(told) > 0 {
				t.Errorf("told while the hook runs: %q", told)
			}
			r.over(7 * time.Second)
			told := r.told("FailedPreStopHook")
			if c.event == "" && len(told) > 0 || c.event != "" && (len(told) != 1 || told[0] != c.event) {
				t.Errorf("told %q, want %q", told, c.event)
			}
		})
	}
}

// The grace of a pod whose hook runs is shortened: the hook goes on.
func TestGraceShortenedDuringPreStop(t *testing.T) {
	r := newRig(t, lived(v1.Lifecycle{PreStop: command("for", "ever")}), deaf())
	r.up()
	r.stop(time.Hour)
	begun := r.Now()
	r.Advance(10 * time.Second)
	r.stop(5 * time.Second)
	r.Advance(5*time.Second + time.Second)
	if !r.under("StopContainer") || !r.under("ExecSync") {
		t.Errorf("at the new end: %+v", r.runner.InFlight(r.actor.Path()))
	}
	r.assign.Stop = &podlife.Stop{At: begun}
	r.over(17 * time.Second)
}

func TestForceDuringPreStop(t *testing.T) {
	r := newRig(t, lived(v1.Lifecycle{PreStop: command("for", "ever")}), deaf())
	r.up()
	r.stop(time.Hour)
	r.Advance(10 * time.Second)
	r.stop(0)
	r.over(2 * time.Second)
}

// A pod's actor crashes while a preStop hook runs: it is not run again, and does
// not put off the end of the grace period, neither of a pod that is to end nor of
// a container that is to be restarted.
func TestCrashDuringPreStop(t *testing.T) {
	crash := func(r *rig) {
		r.Advance(20 * time.Second)
		execs := r.rt.Calls(simcri.ExecSync)
		r.actor.Crash()
		r.actor.Tell(r.assign)
		r.Advance(9 * time.Second)
		r.actor.Tell(pod.Renewed{Pod: r.assign.Pod})
		r.actor.Tell(pod.Wake{})
		if n := r.rt.Calls(simcri.ExecSync); n != execs || !r.under("ExecSync") {
			t.Errorf("%d more commands; under way: %+v", n-execs, r.runner.InFlight(r.actor.Path()))
		}
	}
	t.Run("of a pod", func(t *testing.T) {
		r := newRig(t, lived(v1.Lifecycle{PreStop: command("for", "ever")}), deaf())
		r.up()
		r.stop(30 * time.Second)
		crash(r)
		r.over(32 * time.Second)
	})
	t.Run("of a container", func(t *testing.T) {
		r := newRig(t, lived(v1.Lifecycle{PreStop: command("for", "ever")}), deaf())
		r.up()
		c, _ := r.rt.Find("u1", "a")
		begun := r.Now()
		r.actor.Tell(pod.Probed{ID: c.ID, Health: probe.Health{Liveness: probe.Failure}})
		crash(r)
		r.until(time.Minute, "dead", r.in("a", observed.ContainerExited, 0))
		if took := r.Now().Sub(begun); took < 32*time.Second || took > 33*time.Second {
			t.Errorf("dead after %v, want 32 s", took)
		}
		r.until(time.Minute, "restarted", r.in("a", observed.ContainerRunning, 1))
	})
}

// Nothing bounds a postStart hook but the life of its container.
func TestPostStartTakesItsTime(t *testing.T) {
	p := lived(v1.Lifecycle{PostStart: sleep(600)})
	r := newRig(t, p, nil)
	r.up()
	started := func() bool {
		s := r.status.ContainerStatuses
		return len(s) == 1 && s[0].Started != nil && *s[0].Started
	}
	r.Advance(598 * time.Second)
	if started() {
		t.Error("it counts as started before its postStart hook is over")
	}
	r.until(2*time.Second, "started", started)

	r = newRig(t, lived(v1.Lifecycle{PostStart: command("for", "ever")}), deaf())
	r.up()
	r.Advance(time.Hour)
	if started() || !r.under("ExecSync") || !r.in("a", observed.ContainerRunning, 0)() {
		t.Errorf("after an hour: %+v; %v", r.runner.InFlight(r.actor.Path()), r.reasons())
	}
}

// A pod is deleted while a postStart hook runs: that is ended, and then the preStop
// hook runs.
func TestStopDuringPostStart(t *testing.T) {
	r := newRig(t, lived(v1.Lifecycle{PostStart: command("for", "ever"), PreStop: command("done")}), deaf())
	r.up()
	r.stop(30 * time.Second)
	r.Advance(time.Second)
	if r.under("ExecSync") || !r.under("StopContainer") || r.rt.Calls(simcri.ExecSync) != 2 {
		t.Errorf("%d commands; under way: %+v", r.rt.Calls(simcri.ExecSync), r.runner.InFlight(r.actor.Path()))
	}
	r.over(30 * time.Second)
	if told := r.told("FailedPostStartHook"); len(told) != 1 || told[0] != "PostStartHook failed" {
		t.Errorf("told %q", told)
	}
}

// A container that is to be restarted while its postStart hook runs is.
func TestLivenessFailsDuringPostStart(t *testing.T) {
	r := newRig(t, lived(v1.Lifecycle{PostStart: command("for", "ever"), PreStop: command("done")}), deaf())
	r.up()
	c, _ := r.rt.Find("u1", "a")
	r.actor.Tell(pod.Probed{ID: c.ID, Health: probe.Health{Liveness: probe.Failure}})
	r.until(32*time.Second, "dead", r.in("a", observed.ContainerExited, 0))
	r.until(time.Minute, "restarted", r.in("a", observed.ContainerRunning, 1))
	if told := r.told("Killing"); len(told) != 1 || told[0] != "Container a failed liveness probe, will be restarted" {
		t.Errorf("told %q", told)
	}
}

// A postStart hook that failed does not delay the preStop hook.
func TestPreStopAfterAFailedPostStart(t *testing.T) {
	scripts := map[string]*simcri.Script{"a": {Exec: func(c []string) simcri.ExecAnswer {
		return simcri.ExecAnswer{ExitCode: int32(len(c) - 1)}
	}}}
	r := newRig(t, lived(v1.Lifecycle{PostStart: command("not", "well"), PreStop: command("done")}), scripts)
	r.until(time.Second, "stopped", r.in("a", observed.ContainerExited, 0))
	if n := r.rt.Calls(simcri.ExecSync); n != 2 {
		t.Errorf("%d commands, want both hooks", n)
	}
}

// A sleep of no time at all is a hook like any other.
func TestSleepOfNoTime(t *testing.T) {
	r := newRig(t, lived(v1.Lifecycle{PostStart: sleep(0), PreStop: sleep(0)}), nil)
	r.up()
	r.stop(30 * time.Second)
	r.over(0)
}

// Nobody lives to see the end of a grace period like this one. The stop signal is
// sent at once, and what does not listen is not killed.
func TestGraceWithoutEnd(t *testing.T) {
	for _, seconds := range []int64{9223372036, 9223372037, 1 << 62} {
		p := onePod("a")
		p.Spec.TerminationGracePeriodSeconds = &seconds
		r := newRig(t, p, nil)
		r.up()
		r.stop(podspec.Grace(p))
		r.over(0)

		r = newRig(t, p, deaf())
		r.up()
		r.stop(podspec.Grace(p))
		r.Advance(10000 * time.Hour)
		if !r.in("a", observed.ContainerRunning, 0)() || !r.under("StopContainer") {
			t.Errorf("grace of %d s: %+v", seconds, r.runner.InFlight(r.actor.Path()))
		}
		r.stop(0)
		r.over(2 * time.Second)
	}
}

// TestHTTPHookWithoutAnAddress: a pod of the host's network, on a node whose addresses are not known.
func TestHTTPHookWithoutAnAddress(t *testing.T) {
	hook := &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Path: "/bye", Port: intstr.FromInt32(80)}}
	p := lived(v1.Lifecycle{PreStop: hook})
	p.Spec.HostNetwork = true
	r := newRig(t, p, nil)
	r.up()
	r.stop(5 * time.Second)
	r.over(0)
	if told := r.told("FailedPreStopHook"); len(told) != 1 || told[0] != "PreStopHook failed" {
		t.Errorf("told %q", told)
	}
}

// TestHTTPSHookOfAPlainServer: the hook works, and people are told what to mend.
func TestHTTPSHookOfAPlainServer(t *testing.T) {
	hook := &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Scheme: v1.URISchemeHTTPS, Path: "/bye", Port: intstr.FromInt32(80)}}
	p := lived(v1.Lifecycle{PreStop: hook})
	p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80}}
	r := newRig(t, p, nil)
	r.up()
	r.stop(5 * time.Second)
	r.over(0)
	want := fmt.Sprintf("request to HTTPS lifecycle hook %s:80 got HTTP response, retry with HTTP succeeded", r.status.PodIP)
	if told := r.told("LifecycleHTTPFallback"); len(told) != 1 || told[0] != want || len(r.told("FailedPreStopHook")) > 0 {
		t.Errorf("told %q, want %q", told, want)
	}
}

// TestTCPSocketHook: the API still accepts tcpSocket hooks, and the kubelet can run none: each fails. A
// container with a postStart hook of this kind is restarted, a preStop hook only costs an event.
func TestTCPSocketHook(t *testing.T) {
	tcp := &v1.LifecycleHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(80)}}
	t.Run("postStart", func(t *testing.T) {
		r := newRig(t, lived(v1.Lifecycle{PostStart: tcp}), nil)
		r.until(time.Second, "stopped", r.in("a", observed.ContainerExited, 0))
		if told := r.told("FailedPostStartHook"); len(told) != 1 || told[0] != "PostStartHook failed" {
			t.Errorf("told %q", told)
		}
		if told := r.told("Killing"); len(told) != 1 || told[0] != "FailedPostStartHook" {
			t.Errorf("killed because of %q", told)
		}
		waits := func() bool {
			s := r.status.ContainerStatuses
			return len(s) == 1 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == "PostStartHookError" &&
				strings.Contains(s[0].State.Waiting.Message, "is one of exec, httpGet and sleep")
		}
		r.until(time.Second, "waiting in the crash-loop backoff, and says why", waits)
		r.until(time.Minute, "restarted", r.in("a", observed.ContainerExited, 1))
	})
	t.Run("preStop", func(t *testing.T) {
		r := newRig(t, lived(v1.Lifecycle{PreStop: tcp}), deaf())
		r.up()
		r.stop(5 * time.Second)
		r.over(5 * time.Second) // the whole grace period is the container's
		if told := r.told("FailedPreStopHook"); len(told) != 1 || told[0] != "PreStopHook failed" {
			t.Errorf("told %q", told)
		}
	})
}
