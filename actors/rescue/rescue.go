// Package rescue keeps a panic on a goroutine beside the actors from ending the process.
//
// The kernel recovers what panics in an actor. Most work runs elsewhere: on a goroutine that a port has started for one
// call, with the spec of one pod in its hands.
//
//	work panics ──► the effect's owner is told: it crashes, or the crash is reported (kernel.Effect)
//	            └─► the call fails, with the text of the panic
package rescue

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

type key struct{}

// Key is the key by which a ctx has a Told.
var Key any = key{}

// Told is told that the work for a ctx has panicked.
type Told func(reason string, stack []byte)

// Call is deferred by a goroutine that works for ctx, before all else. fail fails the call; it is also called if the
// work had answered already.
func Call(ctx context.Context, fail func(reason string)) {
	r := recover()
	if r == nil {
		return
	}
	if told, is := ctx.Value(Key).(Told); is {
		told(fmt.Sprint(r), debug.Stack())
	}
	fail(fmt.Sprintf("panic: %v%s", r, place()))
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

// place is where the panic was. The frames above it are those of the recovery and of the runtime.
func place() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "runtime.") {
			return fmt.Sprintf(" (%s:%d)", f.File[strings.LastIndexByte(f.File, '/')+1:], f.Line)
		}
		if !more {
			return ""
		}
	}
}
