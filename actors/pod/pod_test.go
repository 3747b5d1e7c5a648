package pod_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestRunsAndEnds(t *testing.T) {
	r := newRig(t, onePod("a", "b"), nil)
	r.until(time.Second, "running", func() bool {
		return r.in("a", observed.ContainerRunning, 0)() && r.in("b", observed.ContainerRunning, 0)() && r.status.Phase == v1.PodRunning
	})
	r.stop(30 * time.Second)
	r.until(5*time.Second, "finished", func() bool { return r.finished })
	if left := r.runner.InFlight(r.actor.Path()); len(left) > 0 {
		t.Errorf("left over: %+v", left)
	}
	want := []string{"Created a", "Created b", "Killing a", "Killing b", "Started a", "Started b"}
	got := r.reasons()
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

// TestPastItsDeadline: of a pod that has run for activeDeadlineSeconds an event says so, as its status does.
func TestPastItsDeadline(t *testing.T) {
	p := onePod("a")
	p.Spec.ActiveDeadlineSeconds = new(int64(60))
	r := newRig(t, p, nil)
	r.until(time.Second, "running", r.in("a", observed.ContainerRunning, 0))
	r.until(2*time.Minute, "ended", func() bool { return r.finished })
	var told []string
	for _, e := range r.events {
		if e.Reason == "DeadlineExceeded" && e.Container == "" && !e.Warning {
			told = append(told, e.Message)
		}
	}
	if len(told) != 1 || told[0] != r.status.Message || r.status.Reason != "DeadlineExceeded" {
		t.Errorf("events %q, and the status says %s: %q", told, r.status.Reason, r.status.Message)
	}
}

// TestStoppingWantsNoImages: images is told once that a pod is being taken down, when that begins: an image that it
// waits for may take long, and its pull may be what it is evicted for.
func TestStoppingWantsNoImages(t *testing.T) {
	r := newRig(t, onePod("a"), map[string]*simcri.Script{"a": {TermDelay: simcri.Constant(20 * time.Second)}})
	r.until(time.Second, "running", r.in("a", observed.ContainerRunning, 0))
	check.Equal(t, r.forgets, 0, "how often images was told while it runs")
	r.stop(30 * time.Second)
	r.Advance(time.Millisecond)
	check.Equal(t, r.forgets, 1, "how often when it begins to stop")
	r.stop(10 * time.Second)
	r.until(30*time.Second, "finished", func() bool { return r.finished })
	check.Equal(t, r.forgets, 1, "how often in all")
}

// TestInPlace: pods is told once that containers run where they were told to, and once more when it has missed that. Calls
// of the runtime that fail are repeated.
func TestInPlace(t *testing.T) {
	r := newRig(t, onePod("a"), nil)
	r.until(time.Second, "running", r.in("a", observed.ContainerRunning, 0))
	failures := 2
	r.fault = func(c simcri.Call) (f simcri.Fault) {
		if c.Method == simcri.UpdateContainer && failures > 0 {
			failures--
			f.Fail, f.Kind = true, port.Unavailable
		}
		return f
	}
	r.assign.Placement = &cpus.Placement{Own: map[string]cpus.ContainerPlacement{"a": {CPUs: "1-2"}}, Number: 7}
	r.actor.Tell(r.assign)
	r.Advance(time.Millisecond)
	if len(r.inPlace) > 0 {
		t.Error("it is told before it is so")
	}
	r.until(time.Minute, "told", func() bool { return len(r.inPlace) > 0 })
	if c, _ := r.rt.Find("u1", "a"); r.rt.Placement(c.ID).CPUs != "1-2" {
		t.Errorf("it runs on %v", r.rt.Placement(c.ID))
	}
	r.actor.Tell(r.assign)
	r.Advance(time.Second)
	if !slices.Equal(r.inPlace, []uint64{7}) {
		t.Errorf("told of %v", r.inPlace)
	}
	r.actor.Tell(pod.Repeat{})
	r.Advance(time.Second)
	if !slices.Equal(r.inPlace, []uint64{7, 7}) {
		t.Errorf("repeated: %v", r.inPlace)
	}
}

// An event about a container whose inspection is under way says that the answer
// is old: nothing else would tell of the exit.
func TestExitDuringInspection(t *testing.T) {
	r := newRig(t, onePod("a"), map[string]*simcri.Script{"a": {RunFor: simcri.Constant(100 * time.Millisecond), CrashLoop: 1}})
	r.statusLate = 500 * time.Millisecond
	r.until(5*time.Second, "restarted", r.in("a", observed.ContainerRunning, 1))
}

// How a container of a pod that is to go has ended is read once, although the call
// that ended it returns while that is being read.
func TestItsEndIsReadOnce(t *testing.T) {
	r := newRig(t, onePod("a"), nil)
	r.until(time.Second, "running", r.in("a", observed.ContainerRunning, 0))
	r.Advance(time.Second)
	looks := r.rt.Calls(simcri.ContainerStatus)
	r.statusLate = 50 * time.Millisecond
	r.stop(30 * time.Second)
	r.until(5*time.Second, "finished", func() bool { return r.finished })
	if n := r.rt.Calls(simcri.ContainerStatus) - looks; n != 1 {
		t.Errorf("%d looks at one end", n)
	}
	if s := r.status.ContainerStatuses[0].State.Terminated; s == nil || s.FinishedAt.IsZero() {
		t.Errorf("its end is %+v", s)
	}
}

// A list that was begun before something happened doesn't tell of it, even if
// it is answered after.
func TestLookAgainAfterAnOldList(t *testing.T) {
	r := newRig(t, onePod("a"), nil)
	r.until(time.Second, "running", r.in("a", observed.ContainerRunning, 0))
	r.Advance(time.Second)
	r.hints, r.listLate = false, 500*time.Millisecond
	r.actor.Tell(pod.RuntimeHint{ID: "stranger", Kind: observed.ContainerStoppedEvent})
	r.Advance(100 * time.Millisecond)
	c, _ := r.rt.Find("u1", "a")
	if err := r.rt.EndContainer(c.ID, simcri.Exit{Code: 1}); err != nil {
		t.Fatal(err)
	}
	r.actor.Tell(pod.RuntimeSeen{View: r.rt.Truth().Runtime.Pods[0].Pod, Listed: r.Now()})
	r.until(5*time.Second, "restarted", r.in("a", observed.ContainerRunning, 1))
}

// A container that was removed by others while another one is being stopped is
// looked for once, not over and over until the stop is done.
func TestNoListsWhileStopping(t *testing.T) {
	r := newRig(t, onePod("a", "b"), map[string]*simcri.Script{"a": {IgnoreTERM: true}})
	r.until(time.Second, "running", func() bool {
		return r.in("a", observed.ContainerRunning, 0)() && r.in("b", observed.ContainerRunning, 0)()
	})
	r.Advance(time.Second)
	r.stop(30 * time.Second)
	r.until(5*time.Second, "b dead", r.in("b", observed.ContainerExited, 0))
	r.Advance(time.Second)
	lists := r.rt.Calls(simcri.List)
	b, _ := r.rt.Find("u1", "b")
	r.rt.RemoveContainer(context.Background(), b.ID, func(error) {})
	r.Advance(20 * time.Second)
	if n := r.rt.Calls(simcri.List) - lists; n > 3 {
		t.Errorf("%d lists for one removed container", n)
	}
	r.until(15*time.Second, "finished", func() bool { return r.finished })
	if took := r.Now().Sub(r.assign.Stop.At); took < 30*time.Second {
		t.Errorf("it was killed after %v", took)
	}
}

func TestSleepHook(t *testing.T) {
	p := onePod("a")
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: sleep(2), PreStop: sleep(5)}
	r := newRig(t, p, nil)
	r.until(time.Second, "running", r.in("a", observed.ContainerRunning, 0))
	r.Advance(10 * time.Second)
	r.stop(30 * time.Second)
	r.until(10*time.Second, "dead", r.in("a", observed.ContainerExited, 0))
	if took := r.Now().Sub(r.assign.Stop.At); took < 5*time.Second || took > 6*time.Second {
		t.Errorf("dead after %v, want 5 s of sleep before the stop", took)
	}
	r.until(time.Second, "finished", func() bool { return r.finished })
	if left := r.runner.InFlight(r.actor.Path()); len(left) > 0 {
		t.Errorf("left over: %+v", left)
	}
	lists := r.rt.Calls(simcri.List)
	if r.Advance(time.Minute); r.rt.Calls(simcri.List) != lists {
		t.Error("the end of a sleep made the actor look at the runtime")
	}
}

// A hook that was begun by a predecessor is waited for, and not run again.
func TestRestartDuringPostStart(t *testing.T) {
	p := onePod("a")
	always := v1.ContainerRestartPolicyAlways
	p.Spec.InitContainers = []v1.Container{{
		Name: "s", Image: "img", ImagePullPolicy: v1.PullIfNotPresent, RestartPolicy: &always,
		Lifecycle: &v1.Lifecycle{PostStart: sleep(10)},
	}}
	r := newRig(t, p, nil)
	r.until(time.Second, "the sidecar running", r.in("s", observed.ContainerRunning, 0))
	began := r.Now()
	r.Advance(5 * time.Second)
	r.actor.Crash()
	r.actor.Tell(r.assign)
	r.until(30*time.Second, "main running", r.in("a", observed.ContainerRunning, 0))
	if took := r.Now().Sub(began); took < 10*time.Second || took > 11*time.Second {
		t.Errorf("main ran %v after the sidecar, whose hook takes 10 s", took)
	}
}

// An actor that crashes with a long stop under way still kills soon when asked.
func TestForceAfterRestart(t *testing.T) {
	r := newRig(t, onePod("a"), map[string]*simcri.Script{"a": {IgnoreTERM: true}})
	r.until(time.Second, "running", r.in("a", observed.ContainerRunning, 0))
	r.Advance(time.Second)
	r.stop(10 * time.Minute)
	r.Advance(10 * time.Second)
	r.actor.Crash()
	r.actor.Tell(r.assign)
	r.Advance(10 * time.Second)
	r.assign.Stop = nil
	r.stop(0)
	r.until(5*time.Second, "dead", r.in("a", observed.ContainerExited, 0))
	r.until(5*time.Second, "finished", func() bool { return r.finished })
}

// TestFailedSync: people are told of what can't be inspected, but not for each pod while the runtime is away, and not
// of what is gone.
func TestFailedSync(t *testing.T) {
	for kind, told := range map[port.ErrorKind]bool{
		port.Other: true, port.Deadline: true, port.Unavailable: false, port.NotFound: false,
	} {
		t.Run(kind.String(), func(t *testing.T) {
			r := newRig(t, onePod("a"), nil)
			r.until(time.Second, "running", r.in("a", observed.ContainerRunning, 0))
			r.Advance(time.Second)
			failures := 2
			r.fault = func(c simcri.Call) (f simcri.Fault) {
				if c.Method == simcri.ContainerStatus && failures > 0 {
					failures--
					f.Fail, f.Kind = true, kind
				}
				return f
			}
			c, _ := r.rt.Find("u1", "a")
			r.Must(r.rt.EndContainer(c.ID, simcri.Exit{Code: 1}))
			r.until(time.Minute, "restarted", r.in("a", observed.ContainerRunning, 1))
			events := 0
			for _, e := range r.events {
				if e.Reason == "FailedSync" && e.Warning && strings.HasPrefix(e.Message, "error determining status: ") {
					events++
				}
			}
			if events > 0 != told {
				t.Errorf("%d events", events)
			}
		})
	}
}

// TestFailedKill: what can't be stopped is told in the words of a kubelet, which programs match.
func TestFailedKill(t *testing.T) {
	for method, want := range map[simcri.Method]string{
		simcri.StopContainer:  `error killing pod: failed to "KillContainer" for "a" with KillContainerError: "`,
		simcri.StopPodSandbox: `error killing pod: failed to "KillPodSandbox" for "u1" with KillPodSandboxError: "`,
	} {
		r := newRig(t, onePod("a"), nil)
		r.until(time.Second, "running", r.in("a", observed.ContainerRunning, 0))
		failures := 1
		r.fault = func(c simcri.Call) (f simcri.Fault) {
			if c.Method == method && failures > 0 {
				failures--
				f.Fail, f.Kind = true, port.Other
			}
			return f
		}
		r.stop(time.Second)
		r.until(time.Minute, "finished", func() bool { return r.finished })
		if told := r.told("FailedKillPod"); len(told) != 1 || !strings.HasPrefix(told[0], want) {
			t.Errorf("told %q, want %q", told, want)
		}
	}
}

// TestSandboxOfADeletedPod: that a pod which is deleted meanwhile got no sandbox is no news.
func TestSandboxOfADeletedPod(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		r := newRig(t, onePod("a"), nil)
		r.until(time.Second, "running", r.in("a", observed.ContainerRunning, 0))
		r.fault = func(c simcri.Call) (f simcri.Fault) {
			if c.Method == simcri.RunPodSandbox {
				f.Fail, f.Kind, f.Detail, f.Latency = true, port.Other, "no address", 5*time.Second
			}
			return f
		}
		c, _ := r.rt.Find("u1", "a")
		r.Must(r.rt.EndSandbox(c.SandboxID))
		r.until(time.Minute, "another one is being made", func() bool { return r.under("RunPodSandbox") })
		if deleted {
			r.stop(time.Second)
		}
		r.Advance(6 * time.Second)
		if told := r.told("FailedCreatePodSandBox"); len(told) > 0 == deleted {
			t.Errorf("deleted %v: told %q", deleted, told)
		}
	}
}
