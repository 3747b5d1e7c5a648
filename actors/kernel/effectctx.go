package kernel

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/rescue"
)

// effectContext is the ctx of one effect. It is part of the effect, so it costs no allocation. It
// reports its end on the goroutine that ends it. In a simulation that is the scheduler's goroutine,
// while context.WithCancel would start another one, which races with the run.
//
// It has no Deadline of its own: the runner's clock ends it, which need not be the machine's.
type effectContext struct {
	clock Clock
	// effect is that whose ctx it is; nil for one of NewContext.
	effect *effect

	mu    sync.Mutex
	err   error         // why it ended; nil before
	ended chan struct{} // made by the first call of Done
	// first is the hook that nearly every effect has, others are the rest.
	first  *endHook
	others []*endHook
}

// NewContext makes a ctx like that of an effect, for other calls. It ends when end is called, and
// reports its end on that goroutine.
func NewContext(clock Clock) (ctx context.Context, end func(why error)) {
	c := &effectContext{clock: clock}
	return c, c.end
}

// Now is the time by the clock of the effect whose Run was given ctx: in Run, when the call began.
func Now(ctx context.Context) time.Time {
	c, is := ctx.(*effectContext)
	if !is {
		panic("kernel.Now needs the context of an effect")
	}
	return c.clock.Now()
}

// After calls done with nil after d, by the clock of the effect whose Run was given ctx. If ctx
// ends before, it calls done with the reason. It is for an effect that only waits.
func After(ctx context.Context, d time.Duration, done func(error)) {
	c, is := ctx.(*effectContext)
	if !is {
		panic("kernel.After needs the context of an effect")
	}
	stop := c.clock.AfterFunc(d, func() {
		defer rescue.Call(ctx, rescue.Answered)
		done(nil)
	})
	c.AfterFunc(func() {
		if stop() {
			done(c.Err())
		}
	})
}

// endHook is a function to call at the end.
type endHook struct {
	ctx *effectContext
	f   func()
}

// Deadline implements context.Context.
func (c *effectContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements context.Context. It has who is told of a panic of the effect's work.
func (c *effectContext) Value(key any) any {
	if key == rescue.Key && c.effect != nil {
		return rescue.Told(c.effect.panicked)
	}
	return nil
}

// Err implements context.Context.
func (c *effectContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Done implements context.Context.
func (c *effectContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		c.ended = make(chan struct{})
		if c.err != nil {
			close(c.ended)
		}
	}
	return c.ended
}

// AfterFunc calls f once when the context ends, for any reason; f must not block. Contexts that the
// standard library derives from this one use it instead of a goroutine. stop reports whether it
// prevented the call.
//
// If the context has ended already, f is called soon, but never by AfterFunc itself: the caller may
// hold a lock that f takes.
func (c *effectContext) AfterFunc(f func()) (stop func() bool) {
	h := &endHook{c, f}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return c.clock.AfterFunc(0, f)
	case c.first == nil:
		c.first = h
	default:
		c.others = append(c.others, h)
	}
	return h.stop
}

func (h *endHook) stop() bool {
	c := h.ctx
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.f == nil || c.err != nil {
		return false
	}
	h.f = nil
	if c.first == h {
		c.first = nil
	} else {
		c.others = slices.DeleteFunc(c.others, func(o *endHook) bool { return o == h })
	}
	return true
}

// end ends the context once, and calls the hooks.
func (c *effectContext) end(why error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = why
	if c.ended != nil {
		close(c.ended)
	}
	first, others := c.first, c.others
	c.first, c.others = nil, nil
	c.mu.Unlock()
	if first != nil {
		first.f() // not written once the context has ended
	}
	for _, h := range others {
		h.f()
	}
}

var _ context.Context = (*effectContext)(nil)
