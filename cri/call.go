package cri

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/rescue"
)

// call describes one call.
type call struct {
	method string
	object string // in full, for the observer
	limit  time.Duration
}

// run performs fn on a new goroutine, within the call's deadline, and passes its translated
// result to done, exactly once. A panic of fn, which interprets specs of pods, is an error.
func run[T any](c *Client, ctx context.Context, k call, fn func(context.Context) (T, error), done func(T, error)) {
	panicked := port.Panicked(k.method, short(k.object))
	if !c.enter() {
		rescue.Ask(ctx, func() (none T, err error) {
			return none, &port.Error{
				Kind: port.Canceled, Verb: k.method, Object: short(k.object), Detail: "the client is closed",
			}
		}, panicked, done)
		return
	}
	rescue.Go(ctx, func() {
		defer c.calls.Done()
		rescue.Answer(ctx, func() (T, error) { return perform(c, ctx, k, fn) }, panicked, done)
	}, rescue.Answered)
}

// run0 is run for calls without a result.
func run0(c *Client, ctx context.Context, k call, fn func(context.Context) error, done func(error)) {
	run(c, ctx, k,
		func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) },
		func(_ struct{}, err error) { done(err) })
}

// enter registers a call; false if the client is closed.
func (c *Client) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.calls.Add(1)
	}
	return !c.closed
}

func perform[T any](c *Client, ctx context.Context, k call, fn func(context.Context) (T, error)) (T, error) {
	ctx, cancel := c.within(ctx, k.limit)
	defer cancel()
	start := time.Now()
	result, err := fn(ctx)
	err = translateError(k, err, ended(ctx))
	if port.KindOf(err) == port.Unavailable {
		c.noStreams.Store(false)
		c.headersFirst.Store(false)
	}
	if c.config.Observe != nil {
		c.config.Observe(Call{Method: k.method, Object: k.object, Start: start, Duration: time.Since(start), Err: err})
	}
	if err != nil {
		var zero T
		return zero, err
	}
	return result, nil
}

// deadlineSkew: the runtime knows the deadline, and may report it this much earlier than ctx.
const deadlineSkew = 50 * time.Millisecond

// ended is ctx's error, also if its deadline is about to pass.
func ended(ctx context.Context) error {
	if at, ok := ctx.Deadline(); ok && ctx.Err() == nil && time.Until(at) < deadlineSkew {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// within bounds ctx by limit, if there is one, and by the client's lifetime.
func (c *Client) within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	var cancel context.CancelFunc
	if limit == none {
		ctx, cancel = context.WithCancel(ctx)
	} else {
		ctx, cancel = context.WithTimeout(ctx, limit)
	}
	stop := context.AfterFunc(c.closing, cancel)
	return ctx, func() { stop(); cancel() }
}

// short abbreviates an ID as tools do. Names are left as they are.
func short(object string) string {
	if len(object) != 64 {
		return object
	}
	for i := range len(object) {
		if c := object[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return object
		}
	}
	return object[:13]
}
