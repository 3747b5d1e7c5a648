package scenarios

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

// faultOnce does f to the first call of a method for a pod.
func (w *world) faultOnce(m simcri.Method, name string, f simcri.Fault) *int {
	n := new(int)
	w.fault = func(c simcri.Call) simcri.Fault {
		if c.Method != m || plainName(c.Pod.Name) != name {
			return simcri.Fault{}
		}
		if *n++; *n > 1 {
			return simcri.Fault{}
		}
		return f
	}
	return n
}

func TestRuntimeIsKilled(t *testing.T) {
	w := parallelNode(t, 1)
	w.add(many("p", 30, aPod)...)
	w.run(700 * time.Millisecond)
	w.rt.Kill()
	w.run(5 * time.Second)
	w.rt.Restart()
	w.allUp(2 * time.Minute)
	w.watch.restartsExpected = false
	w.quiet()
	w.rt.Kill()
	w.run(20 * time.Second)
	check.Equal(t, w.pod("p-00").Phase, "Running", "while the runtime is down a pod shows")
	w.add(aPod("late"))
	w.drop("p-07")
	w.run(20 * time.Second)
	w.rt.Restart()
	w.allUp(90 * time.Second)
	w.quiet()
}

func TestBadEvents(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]simcri.EventPolicy{
		"lost":    {Drop: 0.5},
		"all":     {Drop: 1},
		"doubled": {Duplicate: 1},
		"late":    {Delay: simcri.Uniform(0, 3*time.Second)},
		"bad":     {Drop: 0.3, Duplicate: 0.3, Delay: simcri.Uniform(0, 2*time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNode(t, 1, withEvents(p))
			w.add(many("p", 10, func(n string) *spec { return emptyPod(n).init("setup").main("app") })...)
			w.allUp(3 * time.Minute)
			for _, n := range names("p", 10) {
				w.end(n, "app", 1)
			}
			w.allUp(90 * time.Second)
			w.run(90 * time.Second)
			w.quiet()
			w.drop(names("p", 10)...)
			w.allUp(3 * time.Minute)
		})
	}
}

func TestPolling(t *testing.T) {
	w := parallelNode(t, 1, withEvents(simcri.EventPolicy{Off: true}))
	w.add(aPod("web"))
	w.allUp(10 * time.Second)
	for i := range 5 {
		w.run(20*time.Minute + time.Duration(i)*170*time.Millisecond)
		w.end("web", "app", 1)
		d := w.until(5*time.Second, "restart", func() bool { return w.runs("web", "app", uint32(i)+1) })
		check.AtMost(t, d, 1300*time.Millisecond, "restarted after")
	}
	w.quiet()
}

// TestHungCalls: a call of one pod hangs; 20 others come and go as ever.
func TestHungCalls(t *testing.T) {
	t.Parallel()
	comeAndGo := func(w *world) time.Duration {
		begin := w.v.Now()
		others := names("p", 20)
		for _, n := range others {
			w.add(aPod(n))
		}
		w.until(time.Minute, "20 others run", func() bool {
			for _, n := range others {
				if !w.runs(n, "app", 0) {
					return false
				}
			}
			return true
		})
		w.drop(others...)
		w.until(time.Minute, "20 others are gone", func() bool {
			for _, p := range w.rt.Truth().Runtime.Pods {
				if p.Ref.Name[0] == 'p' {
					return false
				}
			}
			return true
		})
		return w.v.Now().Sub(begin)
	}
	w := newNode(t, 1)
	w.run(time.Second)
	comeAndGo(w) // the first time images are pulled
	usual := comeAndGo(w)
	for _, m := range simcri.Methods() {
		switch m {
		case simcri.Version, simcri.Status, simcri.ListImages, simcri.RemoveImage, simcri.ExecSync, simcri.Events:
			continue
		}
		t.Run(m.String(), func(t *testing.T) {
			w := newNode(t, 1)
			w.run(time.Second)
			comeAndGo(w)
			hung := true
			w.fault = func(c simcri.Call) simcri.Fault {
				mine := plainName(c.Pod.Name) == "bad" || c.Object == "registry.test/bad:1"
				return simcri.Fault{Hang: hung && mine && c.Method == m}
			}
			w.add(aPod("bad").image("registry.test/bad:1"))
			w.run(2 * time.Second)
			w.drop("bad")
			if m != simcri.StopContainer && m != simcri.StopPodSandbox && m != simcri.RemovePodSandbox && m != simcri.RemoveContainer {
				w.add(aPod("bad").image("registry.test/bad:1"))
			}
			w.run(2 * time.Second)
			if took := comeAndGo(w); took > usual*12/10 {
				t.Errorf("20 others took %v, usually %v", took, usual)
			}
			hung = false
			limit := 10 * time.Minute
			if m == simcri.PullImage {
				limit = 70 * time.Minute
			}
			w.allUp(limit)
			w.run(limit) // until the deadline of what hung
			w.quiet()
		})
	}
}

// TestLostReplies: the call does its work, and nobody says so.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	for _, m := range []simcri.Method{
		simcri.RunPodSandbox, simcri.CreateContainer, simcri.StartContainer, simcri.StopContainer,
		simcri.StopPodSandbox, simcri.RemoveContainer, simcri.RemovePodSandbox, simcri.List,
	} {
		t.Run(m.String(), func(t *testing.T) {
			w := newNode(t, 1)
			w.watch.restartsExpected = false
			w.run(time.Second)
			n := w.faultOnce(m, "web", simcri.Fault{LoseReply: true})
			w.add(emptyPod("web").init("setup").main("app"), aPod("other"))
			w.allUp(10 * time.Minute)
			w.run(5 * time.Minute) // until the deadline
			w.quiet()
			w.drop("web")
			w.allUp(10 * time.Minute)
			w.run(5 * time.Minute)
			w.quiet()
			if *n == 0 && m != simcri.List {
				t.Error("no such call was made")
			}
		})
	}
}

func TestCallsThatFail(t *testing.T) {
	t.Parallel()
	for _, m := range []simcri.Method{
		simcri.RunPodSandbox, simcri.PodSandboxStatus, simcri.CreateContainer, simcri.StartContainer, simcri.ContainerStatus,
		simcri.StopContainer, simcri.StopPodSandbox, simcri.RemoveContainer, simcri.RemovePodSandbox,
	} {
		for _, f := range []simcri.Fault{
			{Fail: true, Kind: port.Other, Detail: "oops"},
			{Fail: true, Kind: port.NameReserved, Detail: "name is reserved"},
			{Fail: true, Kind: port.NotFound, Detail: "no such thing"},
			{Fail: true, Kind: port.StateConflict, Detail: "not now"},
			{Partial: true, Kind: port.Other, Detail: "half of it"},
		} {
			t.Run(fmt.Sprintf("%v/%v/%t", m, f.Kind, f.Partial), func(t *testing.T) {
				w := newNode(t, 1)
				w.run(time.Second)
				w.faultOnce(m, "web", f)
				w.add(aPod("web"), aPod("other"))
				w.allUp(2 * time.Minute)
				w.quiet()
				w.drop("web")
				w.allUp(2 * time.Minute)
				w.quiet()
				if w.crashes > 0 {
					w.failf("%d crashes", w.crashes)
				}
			})
		}
	}
}

// TestNamesThatTheRuntimeHasLost: a runtime says for ever that a name is reserved, and shows nothing of that name, as one
// that lost track of a call over a power cut. After a while the pod starts under the next number.
func TestNamesThatTheRuntimeHasLost(t *testing.T) {
	t.Parallel()
	for _, m := range []simcri.Method{simcri.RunPodSandbox, simcri.CreateContainer} {
		t.Run(m.String(), func(t *testing.T) {
			w := newNode(t, 1)
			w.run(time.Second)
			w.fault = func(c simcri.Call) simcri.Fault {
				if c.Method != m || plainName(c.Pod.Name) != "web" || c.Attempt > 0 {
					return simcri.Fault{}
				}
				return simcri.Fault{Fail: true, Kind: port.NameReserved, Detail: "name is reserved"}
			}
			w.add(aPod("web"), aPod("other"))
			w.allUp(20 * time.Minute)
			w.quiet()
			w.drop("web")
			w.allUp(2 * time.Minute)
			w.quiet()
		})
	}
}

func TestImagePullFails(t *testing.T) {
	w := parallelNode(t, 1)
	w.run(time.Second)
	w.registry.Withdraw("registry.test/app:1")
	w.add(aPod("web"), aPod("twin"))
	var reasons []string
	for end := w.v.Now().Add(45 * time.Second); w.v.Now().Before(end); w.run(250 * time.Millisecond) {
		if c := w.pod("web").Containers; len(c) > 0 && (len(reasons) == 0 || reasons[len(reasons)-1] != c[0].Reason) {
			reasons = append(reasons, c[0].Reason)
		}
	}
	want := []string{"ContainerCreating", "ErrImagePull", "ImagePullBackOff", "ErrImagePull", "ImagePullBackOff", "ErrImagePull", "ImagePullBackOff"}
	for len(reasons) > 0 && len(want) > 0 && reasons[0] != want[0] {
		want = want[1:]
	}
	check.Equal(t, fmt.Sprint(reasons), fmt.Sprint(want), "people were shown %v, want %v", reasons, want)
	if n := w.rt.Calls(simcri.PullImage); n > 4 {
		t.Errorf("%d pulls of an image that is not there", n)
	}
	w.registry.Put("registry.test/app:1", simcri.RegistryImage{})
	w.allUp(6 * time.Minute)
	w.quiet()
}

func TestBrokenImageIsGivenUp(t *testing.T) {
	w := parallelNode(t, 1)
	w.registry.Withdraw("registry.test/app:1")
	w.add(aPod("web"))
	w.run(time.Minute)
	w.drop("web")
	w.allUp(10 * time.Second)
	pulls := w.rt.Calls(simcri.PullImage)
	w.run(time.Hour)
	if n := w.rt.Calls(simcri.PullImage); n != pulls {
		t.Errorf("%d pulls for nobody", n-pulls)
	}
}

// TestImageVanishes: between the answer and the container, someone removes it.
func TestImageVanishes(t *testing.T) {
	w := parallelNode(t, 1)
	w.run(time.Second)
	removed := 0
	w.fault = func(c simcri.Call) simcri.Fault {
		if c.Method == simcri.RunPodSandbox && removed < 1 {
			removed++
			return simcri.Fault{Latency: 5 * time.Second}
		}
		return simcri.Fault{}
	}
	w.add(aPod("web"))
	w.until(10*time.Second, "the image", func() bool { return len(w.rt.Truth().Images) == 1 })
	w.rt.RemoveImage(t.Context(), "registry.test/app:1", func(error) {})
	w.allUp(time.Minute)
	w.quiet()
}

func TestVolumesFail(t *testing.T) {
	w := parallelNode(t, 1)
	w.run(time.Second)
	broken := true
	calls := 0
	w.host.Fault = func(c machine.Call) (f machine.Fault) {
		if c.Verb != "MountVolume" {
			return f
		}
		calls++
		if broken {
			f.Err = &port.Error{Verb: "mount", Object: c.Volume, Detail: "no such export"}
		}
		return f
	}
	w.add(aPod("web").volume("data").volume("cache").volume("more"))
	w.run(10 * time.Minute)
	check.AtMost(t, calls, 60, "%d tries to mount three volumes in ten minutes", calls)
	if w.count("web", "FailedMount") == 0 {
		t.Error("no event says that mounts fail")
	}
	broken = false
	w.allUp(3 * time.Minute)
	w.quiet()
	w.drop("web")
	w.allUp(10 * time.Second)
}

// TestVolumeHangs: the mount of one pod hangs; it can still be removed.
func TestVolumeHangs(t *testing.T) {
	w := parallelNode(t, 1)
	w.run(time.Second)
	w.host.Fault = func(c machine.Call) machine.Fault { return machine.Fault{Hang: c.Volume == "dead"} }
	w.add(aPod("web").volume("dead"), aPod("other").volume("data"))
	w.until(10*time.Second, "the other one runs", func() bool { return w.runs("other", "app", 0) })
	w.run(10 * time.Second)
	w.drop("web")
	w.allUp(5 * time.Minute)
	w.quiet()
}

// TestRemovalFails: what is left is removed when that is possible again.
func TestRemovalFails(t *testing.T) {
	w := parallelNode(t, 1)
	w.run(time.Second)
	broken := true
	w.host.Fault = func(c machine.Call) (f machine.Fault) {
		if broken && (c.Verb == "RemovePod" || c.Verb == "UnmountPod") {
			f.Err = &port.Error{Verb: c.Verb, Detail: "device is busy"}
		}
		return f
	}
	w.add(aPod("web").volume("data"))
	w.allUp(10 * time.Second)
	w.drop("web")
	w.run(10 * time.Minute)
	broken = false
	w.allUp(3 * time.Minute)
	w.quiet()
}

// TestFullMailboxes: bursts that do not fit are hints, and hints may be lost.
func TestFullMailboxes(t *testing.T) {
	w := parallelNode(t, 1, withMailboxes(20))
	w.add(many("p", 40, func(n string) *spec { return aPod(n).main("log") })...)
	w.allUp(3 * time.Minute)
	for _, n := range names("p", 40) {
		w.end(n, "app", 1)
	}
	w.allUp(3 * time.Minute)
	w.run(2 * time.Minute)
	w.quiet()
	w.drop(names("p", 40)...)
	w.allUp(3 * time.Minute)
	w.quiet()
	if w.system.Dropped() == 0 {
		t.Error("no mailbox was full: the test tests nothing")
	}
}

// TestIdleNode: a node on which nothing happens does next to nothing.
func TestIdleNode(t *testing.T) {
	t.Parallel()
	for _, events := range []bool{true, false} {
		w := newNode(t, 1, withEvents(simcri.EventPolicy{Off: !events}))
		w.add(many("p", 30, func(n string) *spec { return aPod(n).volume("data") })...)
		w.allUp(time.Minute)
		w.run(2 * time.Minute)
		steps, calls := w.v.Steps(), w.rt.Calls(simcri.List)
		w.run(10 * time.Minute)
		steps, calls = w.v.Steps()-steps, w.rt.Calls(simcri.List)-calls
		// Without events: a list each second, a message for it, and the timer.
		limit, lists := uint64(300), uint64(25)
		if !events {
			limit, lists = 3000, 620
		}
		t.Logf("events %t: %d messages and %d lists in ten minutes", events, steps, calls)
		if steps > limit || calls > lists {
			t.Errorf("events %t: %d messages and %d lists in ten idle minutes", events, steps, calls)
		}
	}
}

// TestManifestStorm: one manifest is written again and again.
func TestManifestStorm(t *testing.T) {
	w := parallelNode(t, 1)
	w.run(time.Second)
	for i := range 50 {
		w.add(aPod("web").note("version", fmt.Sprint(i)))
		w.run(time.Duration(i*37%400) * time.Millisecond)
	}
	w.allUp(time.Minute)
	w.quiet()
	check.Equal(t, w.newest("web", "app").State, observed.ContainerRunning, "it does not run")
}

// TestRuntimeComesBack: it was away for so long that all who waited for it ask
// rarely. When it is back, nobody waits for that.
func TestRuntimeComesBack(t *testing.T) {
	w := parallelNode(t, 1)
	w.add(aPod("stays"), aPod("goes"), aPod("crashes"))
	w.allUp(10 * time.Second)
	w.watch.restartsExpected = true
	w.end("crashes", "app", 1)
	w.rt.Kill()
	w.add(aPod("comes"))
	w.drop("goes")
	w.run(10*time.Minute + 7*time.Second)
	w.rt.Restart()
	took := w.until(time.Minute, "all is done that waited", func() bool {
		return w.runs("comes", "app", 0) && w.runs("crashes", "app", 1) && len(w.truthOf("goes").Sandboxes) == 0
	})
	if took > 8*time.Second { // the grace of goes is five
		t.Errorf("done %v after the runtime came back", took)
	}
	w.allUp(time.Minute)
	w.quiet()
}

// TestManifestDirectoryIsMissing: it is said, and nobody waits for it: what the
// runtime has of nobody is cleaned up. What was wanted of it once ends when it
// stays away, as with a kubelet, and comes back with it.
func TestManifestDirectoryIsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.manifests.ReadErr = fs.ErrNotExist
	w.start()
	w.run(time.Second)
	if v := w.view(); !v.Ready || len(v.Problems) != 1 || v.Problems[0].Source != "/etc/kubernetes/manifests" {
		t.Errorf("ready %v, problems %v", v.Ready, v.Problems)
	}
	w.manifests.ReadErr = nil
	w.add(aPod("web"))
	w.allUp(30 * time.Second)
	w.manifests.ReadErr = fs.ErrNotExist
	w.run(3 * time.Minute)
	if v := w.view(); len(v.Problems) != 1 || len(v.Pods) != 0 {
		t.Errorf("pods %v, problems %v", v.Pods, v.Problems)
	}
	w.restart()
	w.run(time.Minute)
	if v := w.view(); !v.Ready || len(v.Problems) != 1 || len(v.Pods) != 0 {
		t.Errorf("after a restart: ready %v, pods %v, problems %v", v.Ready, v.Pods, v.Problems)
	}
	w.manifests.ReadErr = nil
	w.allUp(30 * time.Second)
	w.quiet()
}

// TestWhatBlocksTheEndOfAPodIsSaid: people see why a pod does not go away.
func TestWhatBlocksTheEndOfAPodIsSaid(t *testing.T) {
	t.Parallel()
	for _, m := range []simcri.Method{simcri.StopContainer, simcri.StopPodSandbox} {
		t.Run(m.String(), func(t *testing.T) {
			w := newNode(t, 1)
			w.add(aPod("web"))
			w.allUp(10 * time.Second)
			broken := true
			w.fault = func(c simcri.Call) simcri.Fault {
				return simcri.Fault{Fail: broken && c.Method == m, Kind: port.Other, Detail: "the shim is gone"}
			}
			w.drop("web")
			w.run(50 * time.Second)
			if p := w.pod("web"); !strings.Contains(p.Problem, "the shim is gone") {
				t.Errorf("nobody is told what blocks it: %+v", p)
			}
			broken = false
			w.allUp(2 * time.Minute)
			w.quiet()
		})
	}
}
