package gc

import (
	"testing"
	"time"
)

// TestReclaim: no dead container of a living pod is kept but the newest incarnation, and who asks meanwhile is
// answered by another sweep.
func TestReclaim(t *testing.T) {
	r := newRig(t, podWith("web", 3), podWith("one", 2))
	for range 2 {
		r.actor.Tell(Reclaim{Reply: func(err error) { r.Say("reclaimed: %v", err) }})
	}
	r.Advance(time.Second)
	for _, line := range []string{"remove web0", "remove web1", "remove one0"} {
		if r.Count(line) != 1 {
			t.Errorf("%s: %q", line, r.Lines())
		}
	}
	if r.Count("remove web2")+r.Count("remove one1") != 0 || r.Count("reclaimed: <nil>") != 2 {
		t.Errorf("%q", r.Lines())
	}
}
