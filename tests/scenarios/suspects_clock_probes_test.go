package scenarios

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/cri/simcri"
)

// hourBack and hourAhead are what a clock is set by.
const (
	hourBack  = -time.Hour
	hourAhead = time.Hour
)

// TestProbesOverASetClock: they run on, at their period. They were due by wall time, so that none ran
// for as long as the clock was set back.
func TestProbesOverASetClock(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{hourBack, hourAhead} {
		w := newNode(t, 1)
		alive := httpProbe("/")
		alive.FailureThreshold = 1
		starts := httpProbe("/")
		starts.FailureThreshold = 100
		w.add(aPod("web").liveness(alive).script("app", "unhealthy-after", "10m"),
			aPod("starts").startup(starts).script("app", "startup-time", "5m"))
		w.until(time.Minute, "web runs", func() bool { return w.runs("web", "app", 0) && w.runs("starts", "app", 0) })
		w.run(time.Minute)
		w.node.StepClock(step)
		before := w.rt.Calls(simcri.ProbeHTTP)
		w.run(time.Minute)
		if n := w.rt.Calls(simcri.ProbeHTTP) - before; n < 11 || n > 13 {
			t.Errorf("%v: %d probes in a minute, want two every ten seconds", step, n)
		}
		w.run(4 * time.Minute)
		if !w.ready("starts") {
			t.Errorf("%v: the startup probe has not passed", step)
		}
		w.until(5*time.Minute, "the liveness probe restarts web", func() bool { return w.runs("web", "app", 1) })
	}
}

// TestLeaseOverASetClock: each renewal is later than the one before, because the control plane counts
// no other as a sign of life.
func TestLeaseOverASetClock(t *testing.T) {
	w, c := parallelCluster(t, 1)
	w.run(time.Minute)
	w.node.StepClock(hourBack)
	w.run(time.Minute)
	before := len(c.renewed)
	w.restart()
	w.run(time.Minute)
	if n := len(c.renewed) - before; n < 5 {
		t.Errorf("%d renewals in a minute, want one every ten seconds", n)
	}
	for i := 1; i < len(c.renewed); i++ {
		if !c.renewed[i].After(c.renewed[i-1]) {
			t.Fatalf("renewal %d is at %v, after %v", i, c.renewed[i], c.renewed[i-1])
		}
	}
}
