package pod_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/pod"
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

// TestEvictedWhileDeleted: a pod that is evicted while it is being deleted has failed, and users are told if it is not
// killed in time, counted from the eviction. A pod that has ended before stays as it is.
func TestEvictedWhileDeleted(t *testing.T) {
	evict := func(r *rig) {
		s := r.assign.Stop.Merged(podlife.Stop{
			At: r.Now(), Grace: time.Second, Reason: "Evicted", Message: "low", Disruption: "low", Fail: true,
		})
		r.assign.Stop = &s
		r.actor.Tell(r.assign)
	}
	ended := func(r *rig) string {
		r.until(2*time.Minute, "ended", func() bool { return r.finished })
		r.Settle()
		if d := podstatus.FindCondition(r.status.Conditions, v1.DisruptionTarget); d != nil {
			return string(r.status.Phase) + " " + r.status.Reason + ": " + d.Message
		}
		return string(r.status.Phase) + " " + r.status.Reason
	}
	for _, crash := range []bool{false, true} {
		r := newRig(t, onePod("a"), deaf())
		r.up()
		r.stop(time.Minute)
		r.Advance(30 * time.Second)
		r.fault = func(c simcri.Call) simcri.Fault { return simcri.Fault{Hang: c.Method == simcri.StopContainer} }
		evict(r)
		if crash {
			r.actor.Crash()
		}
		r.Advance(9 * time.Second)
		if told := r.told("ExceededGracePeriod"); len(told) > 0 {
			t.Errorf("crash %v: told %q 9 s after the eviction", crash, told)
		}
		r.Advance(2 * time.Second)
		if told := r.told("ExceededGracePeriod"); len(told) != 1 {
			t.Errorf("crash %v: told %q 11 s after the eviction, want it once", crash, told)
		}
		r.fault = nil
		if got := ended(r); got != "Failed Evicted: low" {
			t.Errorf("crash %v: it has ended as %s", crash, got)
		}
	}
	r := newRig(t, onePod("a"), nil)
	r.up()
	r.stop(time.Minute)
	before := ended(r)
	evict(r)
	r.actor.Tell(pod.Repeat{})
	if got := ended(r); got != before {
		t.Errorf("it had ended as %s, and is %s since", before, got)
	}
}
