package podtable

import (
	"testing"

	"github.com/troupe-dev/troupe/actors/podview"
)

type container = podview.Container

func is(kind, state, reason string, change ...func(*container)) container {
	c := container{Name: "app", Kind: kind, State: state, Reason: reason, Ready: state == running}
	for _, f := range change {
		f(&c)
	}
	return c
}

func code(n int32) func(*container)     { return func(c *container) { c.ExitCode = &n } }
func restarts(n int32) func(*container) { return func(c *container) { c.Restarts = n } }
func unready(c *container)              { c.Ready = false }

// The cases are kubectl's own rules, one each (printPod).
func TestStatus(t *testing.T) {
	done := func(kind string) container { return is(kind, terminated, "Completed", code(0)) }
	for _, c := range []struct {
		name       string
		pod        podview.Pod
		containers []container
		status     string
		ready      string
		restarts   int32
	}{
		{"runs", podview.Pod{Phase: "Running", Ready: true}, []container{is(kindMain, running, "")}, "Running", "1/1", 0},
		{"not seen yet", podview.Pod{Phase: "Pending"}, nil, "Pending", "0/0", 0},
		{"is created", podview.Pod{Phase: "Pending"}, []container{is(kindMain, waiting, "ContainerCreating")}, "ContainerCreating", "0/1", 0},
		{"cannot pull", podview.Pod{Phase: "Pending"}, []container{is(kindMain, waiting, "ImagePullBackOff")}, "ImagePullBackOff", "0/1", 0},
		{"crashes", podview.Pod{Phase: "Running"}, []container{is(kindMain, waiting, "CrashLoopBackOff", restarts(3)), is(kindMain, running, "")}, "CrashLoopBackOff", "1/2", 3},
		{"the first container decides", podview.Pod{Phase: "Running"}, []container{is(kindMain, waiting, "ErrImagePull"), is(kindMain, waiting, "CrashLoopBackOff")}, "ErrImagePull", "0/2", 0},
		{"failed", podview.Pod{Phase: "Failed"}, []container{is(kindMain, terminated, "Error", code(2))}, "Error", "0/1", 0},
		{"out of memory", podview.Pod{Phase: "Failed"}, []container{is(kindMain, terminated, "OOMKilled", code(137))}, "OOMKilled", "0/1", 0},
		{"failed without a reason", podview.Pod{Phase: "Failed"}, []container{is(kindMain, terminated, "", code(3))}, "ExitCode:3", "0/1", 0},
		{"completed", podview.Pod{Phase: "Succeeded"}, []container{done(kindMain)}, "Completed", "0/1", 0},
		{"one completed, one runs, ready", podview.Pod{Phase: "Running", Ready: true}, []container{done(kindMain), is(kindMain, running, "")}, "Running", "1/2", 0},
		{"one completed, one runs, not ready", podview.Pod{Phase: "Running"}, []container{done(kindMain), is(kindMain, running, "")}, "NotReady", "1/2", 0},
		{"one completed, one failed", podview.Pod{Phase: "Failed"}, []container{done(kindMain), is(kindMain, terminated, "Error", code(1))}, "Error", "0/2", 0},
		{"running but not ready", podview.Pod{Phase: "Running"}, []container{is(kindMain, running, "", unready)}, "Running", "0/1", 0},
		{"rejected", podview.Pod{Phase: "Failed", Life: "Rejected", Reason: "OutOfcpu"}, nil, "OutOfcpu", "0/0", 0},
		{"ends", podview.Pod{Phase: "Running", Life: "Terminating", Ready: true}, []container{is(kindMain, running, "")}, "Terminating", "1/1", 0},
		{"ends, and is over", podview.Pod{Phase: "Succeeded", Life: "Terminating"}, []container{done(kindMain)}, "Completed", "0/1", 0},

		{"first of two init containers", podview.Pod{Phase: "Pending"}, []container{is(kindInit, running, ""), is(kindInit, waiting, "PodInitializing"), is(kindMain, waiting, "PodInitializing")}, "Init:0/2", "0/1", 0},
		{"second of two init containers", podview.Pod{Phase: "Pending"}, []container{done(kindInit), is(kindInit, running, "", restarts(2)), is(kindMain, waiting, "PodInitializing")}, "Init:1/2", "0/1", 2},
		{"init containers are done", podview.Pod{Phase: "Pending"}, []container{done(kindInit), is(kindMain, waiting, "PodInitializing")}, "PodInitializing", "0/1", 0},
		{"init fails", podview.Pod{Phase: "Pending"}, []container{is(kindInit, terminated, "Error", code(1)), is(kindMain, waiting, "PodInitializing")}, "Init:Error", "0/1", 0},
		{"init fails without a reason", podview.Pod{Phase: "Pending"}, []container{is(kindInit, terminated, "", code(7)), is(kindMain, waiting, "PodInitializing")}, "Init:ExitCode:7", "0/1", 0},
		{"init crashes", podview.Pod{Phase: "Pending"}, []container{is(kindInit, waiting, "CrashLoopBackOff", restarts(4)), is(kindMain, waiting, "PodInitializing")}, "Init:CrashLoopBackOff", "0/1", 4},
		{"init's restarts do not count later", podview.Pod{Phase: "Running", Ready: true}, []container{is(kindInit, terminated, "Completed", code(0), restarts(4)), is(kindMain, running, "", restarts(1))}, "Running", "1/1", 1},
		{"with a sidecar", podview.Pod{Phase: "Running", Ready: true}, []container{is(kindSidecar, running, "", restarts(2)), is(kindMain, running, "", restarts(1))}, "Running", "2/2", 3},
		{"sidecar not ready", podview.Pod{Phase: "Running"}, []container{is(kindSidecar, running, "", unready), is(kindMain, running, "")}, "Running", "1/2", 0},
		{"sidecar comes up", podview.Pod{Phase: "Pending"}, []container{done(kindInit), is(kindSidecar, waiting, "PodInitializing"), is(kindMain, waiting, "PodInitializing")}, "Init:1/2", "0/2", 0},
		{"sidecar crashes under a running pod", podview.Pod{Phase: "Running"}, []container{is(kindSidecar, waiting, "CrashLoopBackOff", restarts(2)), is(kindMain, running, "")}, "Init:CrashLoopBackOff", "1/2", 2},
		{"ephemeral containers do not count", podview.Pod{Phase: "Running", Ready: true}, []container{is(kindMain, running, ""), is(kindEphemeral, terminated, "Error", code(1))}, "Running", "1/1", 0},
	} {
		c.pod.Containers = c.containers
		cells := row(&c.pod, Options{}).Cells
		s := summarize(&c.pod)
		if s.status != c.status || cells[2] != c.ready || s.restarts != c.restarts {
			t.Errorf("%s: %s %s %d, want %s %s %d", c.name, s.status, cells[2], s.restarts, c.status, c.ready, c.restarts)
		}
	}
}
