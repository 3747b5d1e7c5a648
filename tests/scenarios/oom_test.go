package scenarios

import (
	"fmt"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/oom"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

// withOOM has a machine whose kernel tells of its OOM killer. With noLog, only its counters do.
func withOOM(t *testing.T, noLog bool) (*world, *cluster, *machine.OOM) {
	w, c := newClusterNode(t, 1, withPressure(machine.Capacity{Memory: 64 * gib, NodeFS: 1000 * gib}))
	m := w.node.Machine().OOM
	m.NoLog = noLog
	w.keepEvents = true
	return w, c, m
}

// containerID is the ID of the running container app of a pod; empty if it does not run.
func (w *world) containerID(pod string) string {
	if c := w.newest(pod, "app"); c.State == observed.ContainerRunning {
		return c.ID
	}
	return ""
}

// told counts events of a reason about a pod, or about the node if pod is empty.
func (w *world) told(pod, reason string) (n int) {
	for _, e := range w.events {
		if e.Reason == reason && (e.Pod == nil && pod == "" || e.Pod != nil && e.Pod.Name == pod) {
			n++
		}
	}
	return n
}

// TestOOMLoop: a container is killed for its memory again and again. It backs off, its status says OOMKilled, no event
// says that it goes on, and other pods do not notice.
func TestOOMLoop(t *testing.T) {
	t.Parallel()
	for _, noLog := range []bool{false, true} {
		t.Run(fmt.Sprintf("no log: %v", noLog), func(t *testing.T) {
			w, c, m := withOOM(t, noLog)
			names := c.crowd(5)
			c.create(aPod("leak"))
			w.until(time.Minute, "all run", func() bool { return c.allReady(append(names, "leak")...) })
			w.run(20 * time.Second)
			var starts []time.Time
			for end := w.v.Now().Add(time.Hour); w.v.Now().Before(end); {
				if id := w.containerID("leak"); id != "" {
					starts = append(starts, w.v.Now())
					w.run(2 * time.Second)
					m.Kill(oom.Kill{PID: 7, Process: "leak", Container: id})
					check.Fatal(t, w.rt.EndContainer(id, simcri.Exit{OOMKilled: true}))
				}
				w.run(500 * time.Millisecond)
			}
			n := len(starts)
			if n < 8 || n > 20 {
				t.Fatalf("it ran %d times in an hour", n)
			}
			if last := starts[n-1].Sub(starts[n-2]); last < 4*time.Minute || last > 6*time.Minute {
				t.Errorf("in the end it ran once in %v", last)
			}
			w.run(10 * time.Second)
			s := c.get("leak").Status.ContainerStatuses[0]
			if s.LastTerminationState.Terminated == nil || s.LastTerminationState.Terminated.Reason != "OOMKilled" ||
				s.State.Waiting == nil || s.State.Waiting.Reason != "CrashLoopBackOff" {
				t.Errorf("%+v", s)
			}
			check.Count(t, w.told("leak", oom.Reason), 0, "%d events say that it goes on")
			c.onlyEvicted("", names)
		})
	}
}

// TestOOMInside: processes in a container are killed, and it goes on. Events say so, and do not flood.
func TestOOMInside(t *testing.T) {
	t.Parallel()
	for _, noLog := range []bool{false, true} {
		t.Run(fmt.Sprintf("no log: %v", noLog), func(t *testing.T) {
			w, c, m := withOOM(t, noLog)
			names := c.crowd(5)
			c.create(aPod("forks"))
			w.until(time.Minute, "all run", func() bool { return c.allReady(append(names, "forks")...) })
			w.run(20 * time.Second)
			id, killed := w.containerID("forks"), w.v.Now()
			m.Kill(oom.Kill{PID: 7, Process: "child", Container: id})
			took := w.until(time.Minute, "the event", func() bool { return w.told("forks", oom.Reason) == 1 })
			t.Logf("the event came after %v", took)
			for w.v.Now().Sub(killed) < time.Hour {
				m.Kill(oom.Kill{PID: 7, Process: "child", Container: id})
				w.run(time.Second)
			}
			if got := w.told("forks", oom.Reason); got < 10 || got > 13 {
				t.Errorf("%d events in an hour, want one in five minutes", got)
			}
			if w.containerID("forks") != id || c.restarts("forks", "app") != 0 {
				t.Error("the container does not run on")
			}
			check.Count(t, w.told("", oom.SystemReason), 0, "%d events of the node")
			c.onlyEvicted("", names)
		})
	}
}

// TestSystemOOM: the machine runs out of memory. The node has an event for the first victims, and they do not flood.
func TestSystemOOM(t *testing.T) {
	t.Parallel()
	w, c, m := withOOM(t, false)
	c.create(aPod("web"))
	w.until(time.Minute, "it runs", func() bool { return c.allReady("web") })
	m.Kill(oom.Kill{PID: 9, Process: "daemon", Cgroup: "/system.slice/daemon.service", System: true})
	w.until(time.Second, "the event", func() bool { return w.told("", oom.SystemReason) == 1 })
	for _, e := range w.events {
		if e.Reason == oom.SystemReason && (e.Node != nodeName || !e.Warning || e.Message != "System OOM encountered, victim process: daemon, pid: 9") {
			t.Errorf("%+v", e)
		}
	}
	for i := range 100 {
		m.Kill(oom.Kill{PID: 10 + i, Process: "daemon", Cgroup: "/system.slice/daemon.service", System: true})
		w.run(time.Second)
	}
	w.restart()
	w.run(time.Minute)
	m.Kill(oom.Kill{PID: 8, Process: "app", Container: w.containerID("web"), System: true})
	w.until(time.Minute, "the pod's", func() bool { return w.told("web", oom.Reason) == 1 })
	if got := w.told("", oom.SystemReason); got > 7 {
		t.Errorf("%d events of the node", got)
	}
}
