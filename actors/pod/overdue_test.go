package pod_test

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/cri/simcri"
)

// TestExceededGracePeriod: the runtime does not kill a pod that the node evicts. Users are told once,
// when half as much again as the grace period is over. The kubelet says nothing of a pod that was
// deleted, or that the runtime killed in time.
func TestExceededGracePeriod(t *testing.T) {
	hangs := func(c simcri.Call) simcri.Fault { return simcri.Fault{Hang: c.Method == simcri.StopContainer} }
	for _, c := range []struct {
		name  string
		stop  podlife.Stop
		fault func(simcri.Call) simcri.Fault
		at    time.Duration // zero for never
	}{
		{"evicted", podlife.Stop{Grace: 30 * time.Second, Fail: true, Reason: "Evicted"}, hangs, 45 * time.Second},
		{"evicted at once", podlife.Stop{Grace: time.Second, Fail: true, Reason: "Evicted"}, hangs, 10 * time.Second},
		{"killed in time", podlife.Stop{Grace: 30 * time.Second, Fail: true, Reason: "Evicted"}, nil, 0},
		{"deleted", podlife.Stop{Grace: 30 * time.Second}, hangs, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, onePod("a"), deaf())
			r.fault = c.fault
			r.up()
			c.stop.At = r.Now()
			r.assign.Stop = &c.stop
			r.actor.Tell(r.assign)
			begun := r.Now()
			r.Advance(100 * time.Second)
			told := r.told("ExceededGracePeriod")
			if c.at == 0 {
				if len(told) > 0 {
					t.Errorf("told %q", told)
				}
				return
			}
			const want = "Container runtime did not kill the pod within specified grace period."
			if len(told) != 1 || told[0] != want {
				t.Fatalf("told %q, want %q once", told, want)
			}
			for _, e := range r.events {
				if e.Reason != "ExceededGracePeriod" {
					continue
				}
				if !e.Warning || e.Container != "" || e.At.Sub(begun) != c.at {
					t.Errorf("%+v, want a warning of the pod after %v", e, c.at)
				}
			}
		})
	}
}
