package csi_test

import (
	"testing"
	"time"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
)

// TestFigures: a driver is asked for the figures of what is published, once in a period and beside its other calls. One
// that hangs is asked about a few volumes, and publishes and unpublishes meanwhile.
func TestFigures(t *testing.T) {
	r := registered(t, func(r *rig) { r.period, r.health = time.Minute, &decide.Health{Abnormal: true, Message: "bad sectors"} })
	bring := func(volume string) {
		r.use(spec("a", volume))
		r.calls.Answer(nil, "stage "+volume, "publish "+volume+" for a")
	}
	bring("1")
	r.Keep("driver: stats")
	r.WantByListener("at once", "driver: stats 1 for a as [data-1]")
	r.Advance(5 * time.Second)
	r.calls.Answer(nil, "stats 1 for a as [data-1]")
	r.events.Want("abnormal", "a: VolumeConditionAbnormal: Volume data-1: bad sectors")
	r.Advance(59 * time.Second)
	r.Keep("driver: stats")
	r.WantByListener("not yet")
	r.Advance(time.Second)
	r.WantByListener("a period after the answer", "driver: stats 1 for a as [data-1]")
	r.calls.Answer(fails(port.Unavailable, "no"), "stats 1 for a as [data-1]")
	r.events.Want("nothing is known")
	r.Advance(time.Minute)
	r.WantByListener("again, after a failure", "driver: stats 1 for a as [data-1]")
	for _, v := range []string{"2", "3", "4", "5"} {
		bring(v)
	}
	r.Keep("driver: stats")
	r.WantByListener("four at most hang", "driver: stats 2 for a as [data-2]", "driver: stats 3 for a as [data-3]", "driver: stats 4 for a as [data-4]")
	r.calls.Answer(nil, "stats 2 for a as [data-2]")
	r.Keep("driver: stats")
	r.WantByListener("then the next", "driver: stats 5 for a as [data-5]")
	r.release("a")
	r.Keep("driver: unpublish")
	r.WantByListener("none waits", "driver: unpublish 1 for a", "driver: unpublish 2 for a", "driver: unpublish 3 for a", "driver: unpublish 4 for a", "driver: unpublish 5 for a")
}

// TestNoFigures: with a negative period no driver is asked.
func TestNoFigures(t *testing.T) {
	r := registered(t, func(r *rig) { r.period = -time.Second })
	r.use(spec("a", "1"))
	r.calls.Answer(nil, "stage 1", "publish 1 for a")
	r.Advance(time.Hour)
	r.Keep("driver: stats")
	r.WantByListener("nothing")
}
