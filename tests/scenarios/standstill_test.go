package scenarios

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/cri/simcri"
)

// TestRuntimeStandsStill: a runtime that answers nothing for 25 s costs no container its life, and no pod its readiness,
// however often and strictly its commands are run.
func TestRuntimeStandsStill(t *testing.T) {
	t.Parallel()
	w := newNode(t, 1)
	w.run(time.Second)
	for _, n := range names("web", 10) {
		p := execProbe("check")
		p.PeriodSeconds, p.FailureThreshold = 1, 1
		w.add(aPod(n).startup(p).liveness(p).readiness(p))
	}
	w.allUp(time.Minute)
	f := w.watchReadiness()
	for range 2 {
		w.run(7 * time.Second)
		wakes := w.v.Now().Add(25 * time.Second)
		w.fault = func(simcri.Call) simcri.Fault { return simcri.Fault{Latency: max(0, wakes.Sub(w.v.Now()))} }
		w.run(25 * time.Second)
		w.fault = nil
		w.run(time.Minute)
	}
	for _, n := range names("web", 10) {
		if c := w.newest(n, "app"); c.Attempt > 0 || w.count(n, "Unhealthy") > 0 || !w.ready(n) {
			t.Errorf("%s: restarted %d times, %d events Unhealthy, ready %v", n, c.Attempt, w.count(n, "Unhealthy"), w.ready(n))
		}
	}
	if f.unready > 0 {
		t.Errorf("not ready any more %d times", f.unready)
	}
}
