package scenarios

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestNoReadinessFlapOverARestartOfTheAgent: static pods, of which no API has a
// status.
func TestNoReadinessFlapOverARestartOfTheAgent(t *testing.T) {
	w := parallelNode(t, 1)
	for i, n := range names("p", 20) {
		slow := httpProbe("/")
		slow.PeriodSeconds = 60
		switch i % 4 {
		case 0:
			w.add(aPod(n).readiness(slow))
		case 1:
			w.add(aPod(n).readiness(execProbe("check")))
		case 2:
			w.add(aPod(n).startup(slow).readiness(tcpProbe()).liveness(grpcProbe()))
		default:
			w.add(aPod(n).readiness(httpProbe("/ready")).script("app", "ready-after", "1h"))
		}
	}
	w.allUp(time.Minute)
	w.run(time.Minute)
	w.watch.restartsExpected = false
	ready := func() (n int) {
		for _, p := range w.view().Pods {
			if p.Ready {
				n++
			}
		}
		return n
	}
	if n := ready(); n != 15 {
		t.Fatalf("%d are ready, want 15", n)
	}
	f := w.watchReadiness()
	for range 5 {
		w.kill()
		clear(f.last) // users of a static pod's view see nothing between
		w.start()
		w.until(time.Second, "somebody can be asked", func() bool {
			_, ok := kernel.Lookup[podset.Message](w.system, nodeName+"/podset")
			return ok
		})
		// What is said of a pod is right from the first moment that it is said.
		for end := w.v.Now().Add(300 * time.Millisecond); w.v.Now().Before(end); w.run(time.Millisecond) {
			for _, p := range w.view().Pods {
				switch {
				case p.Phase == "Unknown" && p.Problem != "" && !p.Ready && len(p.Containers) == 0:
				case p.Phase != "Running" || len(p.Containers) != 1 || p.Containers[0].State != "running":
					t.Fatalf("%v before the end of the first 300 ms pod %s is shown as %+v", end.Sub(w.v.Now()), p.Name, p)
				}
			}
		}
		check.Count(t, ready(), 15, "300 ms after its start the agent shows %d ready")
		w.run(100 * time.Second)
	}
	check.AtMost(t, f.unready+len(f.n), 0, "%d pods changed their readiness, %d times to not ready", len(f.n), f.unready)
}

// TestProbesActorForgets: it panics, and knows what it knew from the pods.
func TestProbesActorForgets(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"probes", "pod/web", "pods", "podset"} {
		t.Run(who, func(t *testing.T) {
			w := newNode(t, 1)
			p := httpProbe("/ready")
			p.FailureThreshold = 1
			w.add(aPod("web").readiness(p).startup(httpProbe("/started")), aPod("slow").readiness(p).script("app", "ready-after", "1h"))
			w.run(time.Minute)
			if !w.ready("web") || w.ready("slow") {
				w.failf("one is to be ready, the other not")
			}
			// The checkpoint may be of no use.
			w.checkpoints.Clear()
			f := w.watchReadiness()
			look := w.around
			for range 3 {
				crash := true
				w.around = func(actor string, m any, handled bool) {
					look(actor, m, handled)
					if actor == who && crash {
						crash = false
						panic(planted)
					}
				}
				w.end("slow", "app", 1)
				w.run(70 * time.Second)
			}
			if f.unready > 0 || f.n[string(w.truthOf("web").Ref.UID)] > 0 {
				t.Errorf("readiness changed: %v", f.n)
			}
			if w.crashes == 0 {
				t.Error("it did not crash")
			}
			before := w.rt.Calls(simcri.ProbeHTTP)
			w.run(time.Minute)
			if n := w.rt.Calls(simcri.ProbeHTTP) - before; n < 11 || n > 13 {
				t.Errorf("%d probes in a minute, want two every ten seconds", n)
			}
		})
	}
}

// TestProbesWithoutACheckpoint: it is of no use, or nobody can read or write it.
func TestProbesWithoutACheckpoint(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		data string
		hang string
		wait time.Duration
	}{
		"broken":        {data: "{", wait: 2 * time.Second},
		"of a stranger": {data: `{"containers": null}`, wait: 2 * time.Second},
		"load hangs":    {hang: "Load", wait: 12 * time.Second},
		"save hangs":    {hang: "Save", wait: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNode(t, 1)
			w.checkpoints.Fault = func(call machine.Call) machine.Fault {
				return machine.Fault{Hang: call.Name == "probes" && call.Verb == c.hang+"Checkpoint"}
			}
			w.add(many("p", 10, func(n string) *spec { return aPod(n).readiness(httpProbe("/")) })...)
			w.allUp(time.Minute)
			w.run(time.Minute)
			if c.data != "" {
				w.checkpoints.Put("probes", []byte(c.data))
			}
			w.restart()
			w.run(c.wait)
			for _, p := range w.view().Pods {
				if !p.Ready {
					t.Errorf("%v after the agent's start %s is not ready", c.wait, p.Name)
				}
			}
			w.checkpoints.Fault = nil
			w.run(30 * time.Second)
			if text := string(w.checkpoints.Get("probes")); strings.Count(text, `"ready":true`) != 10 {
				t.Errorf("remembered is %s", text)
			}
			w.drop(names("p", 10)...)
			w.allUp(time.Minute)
			w.run(2 * time.Second)
			if text := string(w.checkpoints.Get("probes")); !strings.HasSuffix(text, `"content":{"containers":{}}}`) {
				t.Errorf("of pods that are gone is remembered %s", text)
			}
		})
	}
}
