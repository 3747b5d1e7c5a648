package kube

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/tests/check"
)

func pipes() *connections {
	return newConnections(func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		_ = there.Close()
		return here, nil
	})
}

// connected makes a connection and shakes hands on it.
func connected(t *testing.T, c *connections, a *ahead) net.Conn {
	t.Helper()
	made := check.Value(c.dialContext(t.Context(), "tcp", "x"))(t)
	a.has(made)
	a.has(made) // twice is once
	return made
}

type entered struct {
	ahead *ahead
	err   error
}

// entering is enter on a goroutine of its own.
func entering(ctx context.Context, c *connections) <-chan entered {
	got := make(chan entered, 1)
	go func() {
		a, err := c.enter(ctx)
		got <- entered{a, err}
	}()
	return got
}

func TestOneGoesAhead(t *testing.T) {
	c, ctx := pipes(), t.Context()
	first, err := c.enter(ctx)
	if first == nil || err != nil {
		t.Fatalf("the first request: %v, %v; want it to go ahead", first, err)
	}
	second := entering(ctx, c)
	conn := connected(t, c, first)
	first.end(ctx, nil)
	first.end(ctx, errors.New("too late")) // no second end
	if e := <-second; e.ahead != nil || e.err != nil {
		t.Errorf("the second: %+v, want room", e)
	}
	// Room for a hundred: 98 more.
	for range streams - 2 {
		if a, err := c.enter(ctx); a != nil || err != nil {
			t.Fatalf("%v, %v; want room", a, err)
		}
	}
	next, err := c.enter(ctx)
	if next == nil || err != nil {
		t.Fatalf("one too many: %v, %v; want it to go ahead", next, err)
	}
	next.end(ctx, nil)
	c.leave()
	c.leave()
	if a, err := c.enter(ctx); a != nil || err != nil {
		t.Errorf("after two left: %v, %v; want room", a, err)
	}
	check.Error(t, conn.Close())
	if a, err := c.enter(ctx); a == nil || err != nil {
		t.Errorf("after the connection was lost: %v, %v; want to go ahead", a, err)
	}
}

func TestOthersShareItsLuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := pipes(), t.Context()
		first, _ := c.enter(ctx)
		second := entering(ctx, c)
		synctest.Wait() // it waits
		refused := errors.New("refused")
		first.end(ctx, refused)
		if e := <-second; e.ahead != nil || !errors.Is(e.err, refused) {
			t.Errorf("the second: %+v, want the first one's error", e)
		}
	})
}

func TestGivenUpIsNobodysError(t *testing.T) {
	c := pipes()
	ctx, cancel := context.WithCancel(t.Context())
	first, _ := c.enter(ctx)
	second := entering(t.Context(), c)
	impatient, stop := context.WithCancel(t.Context())
	third := entering(impatient, c)
	stop()
	if e := <-third; !errors.Is(e.err, context.Canceled) {
		t.Errorf("the third: %+v, want canceled", e)
	}
	cancel()
	first.end(ctx, ctx.Err())
	if e := <-second; e.ahead == nil || e.err != nil {
		t.Errorf("the second: %+v, want it to go ahead now", e)
	}
}

func TestCloseAll(t *testing.T) {
	c := pipes()
	first, _ := c.enter(t.Context())
	connected(t, c, first)
	check.Value(c.dialContext(t.Context(), "tcp", "x"))(t)
	c.closeAll()
	if len(c.open) != 0 || c.ready != 0 {
		t.Errorf("%d are open, %d ready", len(c.open), c.ready)
	}
	broken := newConnections(func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no") })
	if _, err := broken.dialContext(t.Context(), "tcp", "x"); err == nil || len(broken.open) != 0 {
		t.Errorf("%v; %d are open", err, len(broken.open))
	}
}
