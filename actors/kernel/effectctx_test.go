package kernel

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

func newEffectContext(c Clock) *effectContext { return &effectContext{clock: c} }

func TestEffectContextEndsOnce(t *testing.T) {
	c := newEffectContext(NewVirtual(1, start))
	var told []string
	for _, name := range []string{"a", "b", "c"} {
		c.AfterFunc(func() { told = append(told, name) })
	}
	done := c.Done()
	if c.Err() != nil || len(told) > 0 {
		t.Fatalf("it has ended before its end: %v, %v", c.Err(), told)
	}
	c.end(context.DeadlineExceeded)
	c.end(context.Canceled)
	if !errors.Is(c.Err(), context.DeadlineExceeded) || !slices.Equal(told, []string{"a", "b", "c"}) {
		t.Errorf("err %v, told %v", c.Err(), told)
	}
	<-done
	<-c.Done()
}

func TestEffectContextStop(t *testing.T) {
	c := newEffectContext(NewVirtual(1, start))
	var told []string
	stop := map[string]func() bool{}
	for _, name := range []string{"a", "b", "c", "d"} {
		stop[name] = c.AfterFunc(func() { told = append(told, name) })
	}
	for _, name := range []string{"a", "c"} {
		if !stop[name]() {
			t.Errorf("stop %s: it says that it was too late", name)
		}
		if stop[name]() {
			t.Errorf("stop %s again: it says that it prevented the call", name)
		}
	}
	c.AfterFunc(func() { told = append(told, "e") })
	c.end(context.Canceled)
	check.Same(t, told, []string{"e", "b", "d"}, "told")
	if stop["b"]() {
		t.Error("stop after the end says that it prevented the call")
	}
}

// A caller may hold a lock that f takes.
func TestEffectContextAfterItsEnd(t *testing.T) {
	v := NewVirtual(1, start)
	c := newEffectContext(v)
	c.end(context.Canceled)
	told := 0
	c.AfterFunc(func() { told++ })
	stop := c.AfterFunc(func() { told += 10 })
	check.Equal(t, told, 0, "it was called by AfterFunc itself")
	if !stop() {
		t.Error("stop says that it was too late")
	}
	v.Advance(0)
	check.Equal(t, told, 1, "told")
}

// The standard library's contexts end with it, with no goroutine between them.
func TestEffectContextDerived(t *testing.T) {
	c := newEffectContext(NewVirtual(1, start))
	derived, cancel := context.WithCancel(c)
	defer cancel()
	gone, forget := context.WithCancel(c)
	forget()
	c.end(context.Canceled)
	if derived.Err() == nil || gone.Err() == nil {
		t.Errorf("derived %v, %v", derived.Err(), gone.Err())
	}
	late, cancelLate := context.WithCancel(c)
	defer cancelLate()
	if late.Err() == nil {
		t.Error("one derived after the end goes on")
	}
}

func TestEffectContextConcurrent(t *testing.T) {
	for range 200 {
		c := newEffectContext(WallClock{})
		var wg sync.WaitGroup
		var mu sync.Mutex
		called, prevented := 0, 0
		for range 4 {
			wg.Go(func() {
				stop := c.AfterFunc(func() { mu.Lock(); called++; mu.Unlock() })
				derived, cancel := context.WithTimeout(c, time.Minute)
				defer cancel()
				if stop() {
					mu.Lock()
					prevented++
					mu.Unlock()
				}
				<-derived.Done()
			})
		}
		wg.Go(func() { c.end(context.Canceled) })
		wg.Wait()
		mu.Lock()
		check.AtMost(t, called+prevented, 4, "%d were called, %d prevented", called, prevented)
		mu.Unlock()
	}
}

// The end of an effect's ctx is told in the same step, on the scheduler's
// goroutine: a deadline, a cancel and the end of the runner alike.
func TestEffectContextOnVirtual(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(b *bench, runner *Runner, r Ref[do], id EffectID)
		want error
	}{
		{"deadline", func(b *bench, _ *Runner, _ Ref[do], _ EffectID) { b.Advance(time.Second) }, context.DeadlineExceeded},
		{"cancel", func(b *bench, _ *Runner, r Ref[do], id EffectID) {
			r.Tell(func(ctx *Context[do]) { ctx.Cancel(id) })
			b.Settle()
		}, context.Canceled},
		{"close", func(_ *bench, runner *Runner, _ Ref[do], _ EffectID) { runner.Close() }, context.Canceled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			runner := check.Value(NewRunner(b.sys))(t)
			spec := b.spec("a")
			spec.Runner = runner
			r := b.root(spec)
			var told error
			var id EffectID
			r.Tell(func(ctx *Context[do]) {
				id = ctx.Do(Effect[do]{
					Kind: "Hang", Lane: "l", Deadline: time.Second,
					Run: func(c context.Context, _ EffectID, _ func(do)) {
						c.(interface {
							AfterFunc(func()) func() bool
						}).AfterFunc(func() { told = c.Err() })
					},
					Expired: func(EffectID) do { return b.say("expired") },
				})
			})
			b.Settle()
			tc.end(b, runner, r, id)
			if !errors.Is(told, tc.want) {
				t.Errorf("told %v, want %v", told, tc.want)
			}
		})
	}
}

// After waits, and no longer than its context goes on. It answers once.
func TestAfter(t *testing.T) {
	for _, c := range []struct {
		name   string
		wait   time.Duration
		end    time.Duration
		before bool // the context has ended before
		want   error
		at     time.Duration
	}{
		{"over", 5 * time.Second, time.Minute, false, nil, 5 * time.Second},
		{"no time at all", 0, time.Minute, false, nil, 0},
		{"ended before", time.Minute, 5 * time.Second, false, context.Canceled, 5 * time.Second},
		{"without end", NoDeadline, time.Hour, false, context.Canceled, time.Hour},
		{"begun at its end", time.Minute, time.Hour, true, context.Canceled, 0},
	} {
		v := NewVirtual(1, start)
		ctx, end := NewContext(v)
		if c.before {
			end(context.Canceled)
		}
		var at []time.Duration
		var got error
		After(ctx, c.wait, func(err error) { at, got = append(at, v.Now().Sub(start)), err })
		v.AfterFunc(c.end, func() { end(context.Canceled) })
		v.Advance(2 * time.Hour)
		if !errors.Is(got, c.want) || len(at) != 1 || at[0] != c.at {
			t.Errorf("%s: %v after %v, want %v after %v", c.name, got, at, c.want, c.at)
		}
		check.Count(t, v.Timers(), 0, "%s: %d timers are left", c.name)
	}
}

// On the machine's clock a wait of no time at all may be over before After has returned.
func TestAfterNoTimeOnTheWallClock(t *testing.T) {
	for range 1000 {
		ctx, end := NewContext(WallClock{})
		answers := make(chan error, 2)
		After(ctx, 0, func(err error) { answers <- err })
		check.Fatal(t, <-answers)
		end(context.Canceled)
	}
}
