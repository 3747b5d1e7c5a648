package probes_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/probes"
)

// TestTallies: what is counted of a pod outlives its containers, and goes with it.
func TestTallies(t *testing.T) {
	r := newRig(t, 4)
	r.late = 20 * time.Millisecond
	tallies := func() (out []probes.Tally) {
		r.actor.Tell(probes.Query{Reply: func(all []probes.Tally) { out = all }})
		r.Settle()
		return out
	}
	if got := tallies(); len(got) != 0 {
		t.Errorf("nothing is probed: %+v", got)
	}
	often := func(p *v1.Probe) { p.PeriodSeconds = 1 }
	r.actor.Tell(r.watch("a", often, probe.Failure))
	r.Advance(10 * time.Second)
	r.fail = &port.Error{Kind: port.Unavailable, Detail: "refused"}
	again := r.watch("a", often, probe.Success)
	again.Containers[0].ID = "another"
	r.actor.Tell(again)
	r.Advance(5 * time.Second)
	got := tallies()
	if len(got) != 1 || got[0].Pod != "a" || got[0].Container != "app" || got[0].Kind != probe.Readiness {
		t.Fatalf("%+v", got)
	}
	if n := got[0]; n.Passed < 9 || n.Passed > 12 || n.Failed < 4 || n.Within[2] != n.Passed+n.Failed || n.Total != time.Duration(n.Passed+n.Failed)*r.late {
		t.Errorf("%+v", n)
	}
	gone := again
	gone.Containers = nil
	r.actor.Tell(gone)
	r.Settle()
	if got := tallies(); len(got) != 0 {
		t.Errorf("of a pod that is gone: %+v", got)
	}
}
