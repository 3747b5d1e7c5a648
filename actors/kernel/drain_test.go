package kernel

import (
	"context"
	"errors"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestDrain: what runs with a slot comes to its end and its result is handled;
// what waits, and what is asked for later, never begins.
func TestDrain(t *testing.T) {
	c := newCalls(t, starts)
	r := c.root("a")
	c.do(r, c.effect("1", "x", pooled(1)), c.effect("2", "y", pooled(1)), c.effect("queued", "z", pooled(1)),
		c.effect("behind 1", "x", pooled(1)), c.effect("no slot", "n"))
	c.b.took()
	drained := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.run.Drain(ctx, "start"); !errors.Is(err, context.Canceled) || err.Error() != "wait for 2 effects of pool start: context canceled" {
		t.Errorf("got %v", err)
	}
	go func() { drained <- c.run.Drain(t.Context(), "start") }()
	c.answer("1")
	select {
	case err := <-drained:
		t.Fatalf("it did not wait for the second: %v", err)
	default:
	}
	c.do(r, c.effect("late", "l"))
	c.answer("2")
	check.Error(t, <-drained)
	equal(t, "results", c.b.took(), []string{"1 done", "2 done"})
	if n := c.run.Counts()["Call"]; n.Finished != 2 || n.Dropped != 3 {
		t.Errorf("%+v", n)
	}
}

// TestEnded: after Close it is waited for what runs, and not for what never began.
func TestEnded(t *testing.T) {
	c := newCalls(t, starts)
	r := c.root("a")
	c.do(r, c.effect("1", "x", pooled(1)), c.effect("2", "y", pooled(1)), c.effect("queued", "z", pooled(1)))
	c.run.Close()
	c.run.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	want := "wait for the end of Call 1 of a, Call 2 of a: context canceled"
	if err := c.run.Ended(ctx); !errors.Is(err, context.Canceled) || err.Error() != want {
		t.Errorf("got %v", err)
	}
	c.answer("1")
	c.answer("1")
	check.Fails(t, c.run.Ended(ctx), "it did not wait for the second")
	c.answer("2")
	check.Error(t, c.run.Ended(t.Context()))
	none := newCalls(t, starts)
	none.run.Close()
	check.Error(t, none.run.Ended(t.Context()))
}
