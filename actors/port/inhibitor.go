package port

import (
	"context"
	"time"
)

// Inhibitor delays the shutdown of the machine until the node's pods have ended. The calling convention is
// Runtime's. All errors are *Error. Unavailable: the service of the machine that shuts it down does not answer.
type Inhibitor interface {
	// Watch calls event with whether the machine is shutting down: first as it is now, then with each change.
	// done is called if the service goes away, or its bus does.
	Watch(ctx context.Context, event func(preparing bool), done func(error))
	// Inhibit takes a lock that delays the next shutdown, and then gives back an earlier one. StateConflict: a
	// shutdown is under way, so there are no new locks; an earlier lock is kept.
	Inhibit(ctx context.Context, done func(error))
	// Release gives the lock back, so that a shutdown under way goes on. Idempotent.
	Release(ctx context.Context, done func(error))
	// MaxDelay is how long a shutdown waits for locks at most.
	MaxDelay(ctx context.Context, done func(time.Duration, error))
	// RaiseMaxDelay makes MaxDelay at least this long, for this and later boots of the machine.
	RaiseMaxDelay(ctx context.Context, to time.Duration, done func(error))
}
