package scenarios

import (
	"context"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/cri/simcri"
)

// TestRestartAfterTheClockWasSetBack: a restart of the agent takes no pod out of readiness. The pods'
// actors told by times what was there before them, and took all for their own.
func TestRestartAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{time.Second, 10 * time.Minute} {
		w, c := newClusterNode(t, 1)
		slow := httpProbe("/")
		slow.InitialDelaySeconds, slow.PeriodSeconds = 30, 30
		c.create(aPod("web").readiness(httpProbe("/")), aPod("slow").readiness(slow).startup(httpProbe("/")))
		w.add(aPod("static").readiness(slow))
		w.until(3*time.Minute, "all are ready", func() bool { return c.allReady("web", "slow") && w.ready("static") })
		w.run(time.Minute)
		w.node.StepClock(hourBack)
		w.run(after)
		w.watch.restartsExpected = false
		f := w.watchReadiness()
		for range 2 {
			unready := 0
			w.restart()
			for end := w.v.Now().Add(time.Minute); w.step(end); {
				if !c.allReady("web", "slow") {
					unready++
				}
			}
			if unready > 0 || f.unready > 0 {
				t.Fatalf("%v after the clock was set back, a restart of the agent made pods not ready", after)
			}
		}
		if !w.ready("static") {
			t.Error("the static pod is not ready")
		}
	}
}

// TestVanishedAfterTheClockWasSetBack: a container that somebody removed, without an event, is
// missed. Relists took it for one made after they began.
func TestVanishedAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	for _, what := range []simcri.Method{simcri.RemoveContainer, simcri.RemovePodSandbox} {
		t.Run(what.String(), func(t *testing.T) {
			w := newNode(t, 1, withEvents(simcri.EventPolicy{Off: true}))
			w.add(aPod("web"))
			w.allUp(time.Minute)
			w.run(time.Minute)
			w.node.StepClock(hourBack)
			id := w.newest("web", "app").ID
			done := func(err error) {
				if err != nil {
					w.failf("%v", err)
				}
			}
			w.end("web", "app", 1)
			if what == simcri.RemoveContainer {
				w.rt.RemoveContainer(context.Background(), id, done)
			} else {
				s, _ := w.sandboxOf("web")
				w.rt.RemovePodSandbox(context.Background(), s.ID, done)
			}
			w.until(3*time.Minute, "another runs", func() bool {
				c := w.newest("web", "app")
				return c.ID != id && c.State == observed.ContainerRunning
			})
		})
	}
}
