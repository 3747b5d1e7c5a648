package kernel

import (
	"context"
	"slices"
	"sync"
	"time"
)

// effectContext is the ctx of one effect. It lies in the effect itself, so that
// it costs no allocation, and it tells of its end on the goroutine that ends it:
// in a simulation that is the scheduler's, where context.WithCancel would start
// one that races with the run.
//
// It has no Deadline of its own: the runner's clock ends it, which may not be
// the machine's.
type effectContext struct {
	clock Clock

	mu    sync.Mutex
	err   error         // why it ended; nil while it goes on
	ended chan struct{} // made when somebody asks for it
	// first is the hook that nearly every effect has one of, others are the rest.
	first  *endHook
	others []*endHook
}

// NewContext makes a ctx like that of an effect, for a call that is none: it
// ends when end is called, and tells of that on the goroutine that calls it.
func NewContext(clock Clock) (ctx context.Context, end func(why error)) {
	c := &effectContext{clock: clock}
	return c, c.end
}

// After calls done with nil when d is over, by the clock of the effect that has
// ctx, or before that with the reason why ctx ended. It is for an effect that
// waits and does nothing else; ctx is what its Run was given.
func After(ctx context.Context, d time.Duration, done func(error)) {
	c, is := ctx.(*effectContext)
	if !is {
		panic("kernel.After needs the context of an effect")
	}
	stop := c.clock.AfterFunc(d, func() { done(nil) })
	c.AfterFunc(func() {
		if stop() {
			done(c.Err())
		}
	})
}

// endHook is one function to be called at the end.
type endHook struct {
	ctx *effectContext
	f   func()
}

// Deadline implements context.Context.
func (c *effectContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements context.Context.
func (c *effectContext) Value(any) any { return nil }

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

// AfterFunc has f called once when the context ends, whatever ends it: f must
// not block. The contexts that the standard library derives from this one use
// it in place of a goroutine. stop reports whether it prevented the call.
//
// If the context has ended already, f is called soon, and never by AfterFunc
// itself: the caller may hold a lock that f takes.
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

// end ends the context, once, and calls those who want to know.
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
		first.f() // nobody writes it once the context has ended
	}
	for _, h := range others {
		h.f()
	}
}

var _ context.Context = (*effectContext)(nil)
