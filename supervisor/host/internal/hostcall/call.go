// Package hostcall makes a function that blocks the answer of a port: it runs on a
// goroutine, and its error gets the kind that the port promises.
package hostcall

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/rescue"
)

// Get runs work on a goroutine and gives its result to done, once: when ctx
// ends first, done gets that, and what work did is unknown. A panic of work is an error, too.
func Get[T any](ctx context.Context, verb, object string, work func(context.Context) (T, error), done func(T, error)) {
	var once sync.Once
	finish := func(v T, err error) {
		once.Do(func() {
			if err != nil {
				var none T
				done(none, asError(err, verb, object))
				return
			}
			done(v, nil)
		})
	}
	failed := port.Panicked(verb, object)
	rescue.Go(ctx, func() {
		if ctx.Err() != nil { // nothing is begun for one who has gone
			var none T
			finish(none, ctx.Err())
			return
		}
		stop := context.AfterFunc(ctx, func() {
			defer rescue.Call(ctx, rescue.Answered)
			var none T
			finish(none, ctx.Err())
		})
		defer stop()
		v, err := work(ctx)
		finish(v, err)
	}, func(reason string) {
		var none T
		finish(none, failed(reason))
	})
}

// Do is Get for work without a value.
func Do(ctx context.Context, verb, object string, work func(context.Context) error, done func(error)) {
	Get(ctx, verb, object, func(ctx context.Context) (struct{}, error) { return struct{}{}, work(ctx) },
		func(_ struct{}, err error) { done(err) })
}

// Pod is the object of a call that is about a pod.
func Pod(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }
