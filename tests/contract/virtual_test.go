package contract_test

import (
	"context"
	"time"
)

// virtualClock is time that passes when a test says so, on its own thread.
type virtualClock struct {
	now    time.Time
	timers []*timer // in order of time, then of setting
}

type timer struct {
	at time.Time
	f  func()
}

func (c *virtualClock) Now() time.Time { return c.now }

func (c *virtualClock) AfterFunc(d time.Duration, f func()) func() bool {
	t := &timer{c.now.Add(max(d, 0)), f}
	i := len(c.timers)
	for i > 0 && c.timers[i-1].at.After(t.at) {
		i--
	}
	c.timers = append(c.timers[:i], append([]*timer{t}, c.timers[i:]...)...)
	return func() bool {
		for i, other := range c.timers {
			if other == t {
				c.timers = append(c.timers[:i], c.timers[i+1:]...)
				return true
			}
		}
		return false
	}
}

func (c *virtualClock) step() bool {
	if len(c.timers) == 0 {
		return false
	}
	t := c.timers[0]
	c.timers = c.timers[1:]
	c.now = t.at
	t.f()
	return true
}

func (c *virtualClock) advance(d time.Duration) {
	limit := c.now.Add(d)
	for len(c.timers) > 0 && !c.timers[0].at.After(limit) {
		c.step()
	}
	c.now = limit
}

// virtualContext is a context that ends on the test's own thread.
type virtualContext struct {
	context.Context
	err   error
	done  chan struct{}
	funcs []*func()
}

func newContext() (context.Context, context.CancelFunc) {
	c := &virtualContext{Context: context.Background(), done: make(chan struct{})}
	return c, c.cancel
}

func (c *virtualContext) Done() <-chan struct{} { return c.done }
func (c *virtualContext) Err() error            { return c.err }

func (c *virtualContext) AfterFunc(f func()) func() bool {
	p := &f
	c.funcs = append(c.funcs, p)
	return func() bool {
		for i, other := range c.funcs {
			if other == p {
				c.funcs = append(c.funcs[:i:i], c.funcs[i+1:]...)
				return true
			}
		}
		return false
	}
}

func (c *virtualContext) cancel() {
	if c.err != nil {
		return
	}
	c.err = context.Canceled
	close(c.done)
	funcs := c.funcs
	c.funcs = nil
	for _, f := range funcs {
		(*f)()
	}
}
