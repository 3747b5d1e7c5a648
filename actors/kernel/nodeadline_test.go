package kernel

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// An effect without a deadline goes on until its owner cancels it, and is shown
// with its age, as others are.
func TestNoDeadline(t *testing.T) {
	c := newCalls(t)
	r := c.root("a")
	var id EffectID
	e := c.effect("hook", "h", func(e *Effect[do]) { e.Deadline = NoDeadline })
	r.Tell(func(ctx *Context[do]) { id = ctx.Do(e) })
	c.b.Settle()
	check.Count(t, c.b.Timers(), 0, "%d timers are set")
	c.b.Advance(1000 * time.Hour)
	if u := c.run.UnderWay(); len(u) != 1 || u[0].Started != 1 || u[0].Oldest != 1000*time.Hour {
		t.Errorf("under way: %+v", u)
	}
	r.Tell(func(ctx *Context[do]) { ctx.Cancel(id) })
	c.b.Settle()
	if c.live["hook"].ctx.Err() == nil {
		t.Error("it was cancelled and goes on")
	}
	c.b.took()
	c.answer("hook")
	equal(t, "its answer", c.b.took(), []string{"hook done"})
	if in := c.run.InFlight("a"); len(in) != 0 {
		t.Errorf("left over: %+v", in)
	}
}
