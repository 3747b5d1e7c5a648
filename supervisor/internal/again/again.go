// Package again restarts what must not end, such as a watcher that no actor waits for, if it panics.
package again

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/rescue"
)

// policy is how long what panicked waits. One that has worked for a while begins anew.
var policy = backoff.Policy{Base: 100 * time.Millisecond, Max: 10 * time.Second}

// well is how long a run lasts after which the next wait is the first again.
const well = time.Minute

// Run calls work until it returns or ctx ends. After a panic it tells of that, waits, and calls work once more.
func Run(ctx context.Context, work func(), told func(reason string)) {
	for n := 1; ; n++ {
		began, returned := time.Now(), false
		func() {
			defer rescue.Call(ctx, told)
			work()
			returned = true
		}()
		if returned {
			return
		}
		if time.Since(began) >= well {
			n = 1
		}
		wait := time.NewTimer(backoff.Retry(policy, n))
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}

// Go is Run on a goroutine of its own.
func Go(ctx context.Context, work func(), told func(reason string)) {
	rescue.Go(ctx, func() { Run(ctx, work, told) }, told)
}
