package kernel

import (
	"maps"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestCountersOutliveTheirActors(t *testing.T) {
	b := newBench(t)
	r := b.root(b.spec("a"))
	for range 3 {
		r.Tell(b.say("x"))
	}
	b.Settle()
	before := b.sys.Metrics()[0]
	check.Fatal(t, b.sys.Shutdown(t.Context()))
	after := b.sys.Metrics()[0]
	if after.Kind != "a" || after.Actors != 0 || after.Handled < before.Handled || after.Handled == 0 {
		t.Errorf("%+v, before its end %+v", after, before)
	}
}

func TestCrashCounts(t *testing.T) {
	b := newBench(t)
	spec := b.spec("a")
	spec.Policy = quick
	r := b.root(spec)
	for range 2 {
		r.Tell(func(*Context[do]) { panic("bad") })
		b.Advance(time.Minute)
	}
	want := map[CrashKind]uint64{{"a", Restart}: 2}
	if got := b.sys.CrashCounts(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestEffectsByKind(t *testing.T) {
	c := newCalls(t)
	r := c.root("a")
	c.do(r, c.effect("1", "x"), c.effect("2", "x"), c.effect("3", "y"),
		c.effect("stream", "z", func(e *Effect[do]) { e.Kind, e.Standing, e.Deadline = "Watch", true, 0 }))
	c.b.Advance(3 * time.Second)
	want := []KindInFlight{{Kind: "Call", Queued: 1, Started: 2, Oldest: 3 * time.Second}, {Kind: "Watch", Started: 1}}
	check.Deep(t, c.run.UnderWay(), want, "under way")
	c.answer("1")
	c.b.Advance(time.Hour)
	if got := c.run.UnderWay()[0]; got.Overdue != 2 || got.Queued+got.Started != 0 {
		t.Errorf("an hour later %+v", got)
	}
	n := c.run.Counts()["Call"]
	for i, limit := range EffectBuckets {
		if took := n.Within[i]; (took == 1) != (limit == 5*time.Second) {
			t.Errorf("%d took %v", took, limit)
		}
	}
	if n.Finished != 1 || n.Expired != 2 || n.Total != 3*time.Second {
		t.Errorf("%+v", n)
	}
}
