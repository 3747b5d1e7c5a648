package scenarios

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
)

// TestSweepKeepsTheNewestNumber: a sweep removes what was stuck of a pod that has ended. The agent
// is killed while an older container cannot be removed, and the pod comes back. The number of its
// next container is a new one.
func TestSweepKeepsTheNewestNumber(t *testing.T) {
	w := parallelNode(t, 1)
	stuck := true
	w.fault = func(c simcri.Call) (f simcri.Fault) {
		if c.Method != simcri.RemoveContainer && c.Method != simcri.RemovePodSandbox {
			return f
		}
		if f.Kind = port.Stuck; !stuck {
			f.Kind = port.Other
		}
		f.Fail = stuck || c.Method == simcri.RemoveContainer && c.Attempt == 0
		return f
	}
	w.add(aPod("web"))
	w.allUp(time.Minute)
	w.end("web", "app", 1)
	w.until(time.Minute, "it was restarted", func() bool { return w.runs("web", "app", 1) })
	w.drop("web")
	w.until(time.Minute, "the pod has ended", func() bool { return w.pod("web").UID == "" })

	stuck = false
	w.run(time.Hour) // many sweeps
	w.restart()
	w.add(aPod("web"))
	w.until(time.Minute, "it runs with a number that was never used", func() bool { return w.runs("web", "app", 2) })
	w.fault = nil
	w.drop("web")
	w.allUp(5 * time.Minute)
	w.quiet()
}

// TestTrimsWhileASourceIsUnseen: a static pod crashes again and again, while another source never
// answers. Its dead containers are removed all the same, and those of a pod that may belong to that
// source are trimmed and never removed.
func TestTrimsWhileASourceIsUnseen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, withURL())
	remote := aPod("remote").script("app", "crash-loop", "true").script("app", "run-for", "2s")
	w.manifests.Body = remote.yaml()
	w.watch.want(remote)
	w.fault = func(c simcri.Call) simcri.Fault { return simcri.Fault{Fail: c.Method == simcri.RemoveContainer} }
	w.start()
	w.run(50 * time.Second)
	if n := len(w.truthOf("remote").Containers); n < 4 {
		t.Fatalf("the runtime has %d containers of remote, want some to trim", n)
	}
	w.kill()
	w.fault = nil
	w.checkpoints.Clear()
	w.manifests.FetchErr = &port.Error{Kind: port.Unavailable, Verb: "get"}
	w.add(aPod("web").script("app", "crash-loop", "true").script("app", "run-for", "2s"))
	w.start()
	w.run(24 * time.Hour)
	if n := w.newest("web", "app").Attempt; n < 200 {
		t.Errorf("it was restarted %d times, want one crash in about five minutes", n)
	}
	for _, name := range []string{"web", "remote"} {
		if n := len(w.truthOf(name).Containers); n < 1 || n > 3 {
			t.Errorf("the runtime has %d containers of %s, want the newest one and the one before", n, name)
		}
	}
}
