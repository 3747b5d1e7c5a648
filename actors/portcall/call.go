// Package portcall has the effects that are one call of a port: made once, answered once,
// or not answered in time.
package portcall

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// Do makes one call as the effect e, of which Run and Expired are set here. The message
// of result has what the call gave, or NoAnswer if the deadline of e passed first.
func Do[M, T any](
	ctx *kernel.Context[M], e kernel.Effect[M],
	run func(context.Context, func(T, error)), result func(kernel.EffectID, T, error) M,
) kernel.EffectID {
	kind, object, deadline := e.Kind, e.Object, e.Deadline // and not all of e
	e.Run = func(c context.Context, id kernel.EffectID, done func(M)) {
		run(c, func(got T, err error) { done(result(id, got, err)) })
	}
	e.Expired = func(id kernel.EffectID) M {
		var none T
		return result(id, none, NoAnswer(kind, object, deadline))
	}
	return ctx.Do(e)
}

// Do0 is Do for a call that gives nothing but an error.
func Do0[M any](
	ctx *kernel.Context[M], e kernel.Effect[M],
	run func(context.Context, func(error)), result func(kernel.EffectID, error) M,
) kernel.EffectID {
	return Do(ctx, e,
		func(c context.Context, done func(struct{}, error)) { run(c, func(err error) { done(struct{}{}, err) }) },
		func(id kernel.EffectID, _ struct{}, err error) M { return result(id, err) })
}

// NoAnswer is the error of a call that was not answered in time. It may still have
// worked, or work yet.
func NoAnswer(verb, object string, within time.Duration) *port.Error {
	return &port.Error{Kind: port.Deadline, Verb: verb, Object: object, Detail: fmt.Sprintf("no answer within %v", within)}
}

// Watcher is an apiserver, for its watches.
type Watcher interface {
	Watch(ctx context.Context, s port.Selection, changed func(port.APIChange), ended func(error))
}

// Watch keeps a watch open as the effect e, of which Lane, Standing and Run are set
// here. number tells it from the owner's other watches: one that is replaced may end late.
func Watch[M any](
	ctx *kernel.Context[M], e kernel.Effect[M], number int, api Watcher, s port.Selection,
	told func(kernel.EffectID, port.APIChange) M, ended func(kernel.EffectID, error) M,
) kernel.EffectID {
	self := ctx.Self()
	e.Lane, e.Standing = fmt.Sprintf("watch/%d/%d", ctx.Incarnation(), number), true
	e.Run = func(c context.Context, id kernel.EffectID, done func(M)) {
		api.Watch(c, s, func(change port.APIChange) { self.Tell(told(id, change)) }, func(err error) { done(ended(id, err)) })
	}
	return ctx.Do(e)
}
