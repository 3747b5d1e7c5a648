package scenarios

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/cri/simcri"
)

// TestSetClocksDisturbNothing: whatever the clock is set to, and however long agent or machine stand
// still, no container restarts, no pod loses its readiness, and new pods come up and go.
func TestSetClocksDisturbNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 1))
			var options []option
			if seed%2 == 0 {
				options = append(options, withEvents(simcri.EventPolicy{Off: true}))
			}
			w, c := newClusterNode(t, seed, options...)
			slow := httpProbe("/")
			slow.InitialDelaySeconds, slow.PeriodSeconds = 10, 60
			c.create(aPod("web").readiness(httpProbe("/")).liveness(httpProbe("/")),
				aPod("slow").readiness(slow).startup(tcpProbe()), aPod("plain").sidecar("proxy"))
			w.add(aPod("static").readiness(slow))
			up := []string{"web", "slow", "plain"}
			w.until(3*time.Minute, "all are ready", func() bool { return c.allReady(up...) && w.ready("static") })
			w.run(time.Minute)
			w.watch.restartsExpected = false
			for i := range 15 {
				d := time.Duration(rng.Int64N(int64(2 * time.Hour)))
				what := []string{"step ahead", "step back", "pause", "suspend", "restart", "new pod"}[rng.IntN(6)]
				switch what {
				case "step ahead":
					w.node.StepClock(d)
				case "step back":
					w.node.StepClock(-d)
				case "pause":
					d /= 60
					w.node.PauseAgent(d)
					w.run(d)
				case "suspend":
					w.node.Suspend(d)
					w.run(d)
				case "restart":
					w.restart()
				case "new pod":
					name := fmt.Sprint("new", i)
					c.create(aPod(name).readiness(httpProbe("/")))
					w.until(time.Minute, name+" is ready", func() bool { return c.ready(name) })
					c.delete(name, nil)
					w.until(2*time.Minute, name+" is gone", func() bool { return c.get(name) == nil })
				}
				for end := w.v.Now().Add(time.Duration(rng.Int64N(int64(5 * time.Minute)))); w.step(end); {
					if !c.allReady(up...) {
						w.failf("after act %d, %s %v, a pod is not ready", i, what, d)
					}
				}
			}
			before := len(c.renewed)
			w.run(time.Minute)
			if n := len(c.renewed) - before; n < 5 || !w.ready("static") {
				w.failf("%d renewals of the lease in a minute; the static pod is ready: %v", n, w.ready("static"))
			}
			for _, name := range up {
				if n := c.restarts(name, "app"); n != 0 {
					w.failf("%s has %d restarts", name, n)
				}
			}
		})
	}
}
