// Package rescue keeps a panic on a goroutine beside the actors from ending the process.
//
// The kernel recovers what panics in an actor. Most work runs elsewhere: on a goroutine that a port has started for one
// call, with the spec of one pod in its hands. All such goroutines are started here (tests/arch holds that, and lists
// those that are not).
//
//	work panics ──► the effect's owner is told: it crashes, or the pod that it works for does (kernel.Effect)
//	            └─► the call fails, with the text of the panic
//
// Without an effect, the Told of the ctx is told, if it has one: the daemon's writes to the log.
package rescue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

type key struct{}

// Key is the key by which a ctx has a Told.
var Key any = key{}

// Told is told that the work for a ctx has panicked.
type Told func(reason string, stack []byte)

// With is ctx with a Told.
func With(ctx context.Context, told Told) context.Context { return context.WithValue(ctx, Key, told) }

// Go runs work on a goroutine of its own. If it panics, failed gets the text of the panic, on that goroutine: it fails
// the call, or ends or restarts what the goroutine was for.
func Go(ctx context.Context, work func(), failed func(reason string)) {
	go func() {
		defer Call(ctx, failed)
		work()
	}()
}

// Answered is for a goroutine whose caller has its answer in any case: what is left to do is to tell.
func Answered(string) {}

// Ask is Answer on a goroutine of its own.
func Ask[T any](
	ctx context.Context, work func() (T, error), failed func(reason string) error, done func(T, error),
) {
	go Answer(ctx, work, failed, done)
}

// Do is Ask for work without a value.
func Do(ctx context.Context, work func() error, failed func(reason string) error, done func(error)) {
	Ask(ctx, func() (struct{}, error) { return struct{}{}, work() }, failed, func(_ struct{}, err error) { done(err) })
}

// Call is deferred by a goroutine that works for ctx, before all else. fail fails the call; it is also called if the
// work had answered already. A panic of fail is told too, and goes no further.
func Call(ctx context.Context, fail func(reason string)) {
	r := recover()
	if r == nil {
		return
	}
	reason := text(r)
	tell(ctx, r)
	defer func() {
		if again := recover(); again != nil {
			tell(ctx, again)
		}
	}()
	fail(reason)
}

func tell(ctx context.Context, r any) {
	if told, is := ctx.Value(Key).(Told); is {
		told(fmt.Sprint(r), debug.Stack())
	}
}

// Answer gives done what work gives, once. If work panics, done gets the error that failed makes of the reason.
func Answer[T any](
	ctx context.Context, work func() (T, error), failed func(reason string) error, done func(T, error),
) {
	answered := false
	defer Call(ctx, func(reason string) {
		if !answered {
			var zero T
			done(zero, failed(reason))
		}
	})
	result, err := work()
	answered = true
	done(result, err)
}

// Try gives what work gives, on this goroutine, or its panic as an error. It is for a step of a goroutine that goes on.
func Try[T any](ctx context.Context, work func() (T, error)) (result T, err error) {
	defer Call(ctx, func(reason string) {
		var zero T
		result, err = zero, errors.New(reason)
	})
	return work()
}

// handlers are packages whose frames stand above that of a panic: the runtime, and loops of apimachinery.
var handlers = []string{"runtime.", "k8s.io/apimachinery/pkg/util/runtime."}

// text is what was panicked with, and where. The frames above it are those of the recovery and of handlers.
func text(r any) string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		f, more := frames.Next()
		if !slices.ContainsFunc(handlers, func(h string) bool { return strings.HasPrefix(f.Function, h) }) {
			return fmt.Sprintf("panic: %v (%s:%d)", r, f.File[strings.LastIndexByte(f.File, '/')+1:], f.Line)
		}
		if !more {
			return fmt.Sprintf("panic: %v", r)
		}
	}
}
