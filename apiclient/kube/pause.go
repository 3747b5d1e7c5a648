package kube

import (
	"context"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/internal/patience"
)

// reflectorPause is the pause of the reflector, for refused connections, which it retries by itself.
var reflectorPause = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: time.Second}

// pause is how long a watch waits that lasted so long and ended with err; nil for an end without an error.
func pause(p *patience.Pauses, of port.APIKind, err error, lasted time.Duration) time.Duration {
	if err == nil {
		return p.Next(of, false, port.Other, lasted, rand.Int64N)
	}
	return p.Next(of, true, kindOfError(err), lasted, rand.Int64N)
}

// sleep waits, and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}

// endingClock is the real clock, but its waits end with ctx: the reflector waits on its clock
// without a look at its context.
type endingClock struct {
	clock.RealClock
	ctx context.Context
}

func (c endingClock) After(d time.Duration) <-chan time.Time {
	fired := make(chan time.Time, 1)
	ctx, cancel := context.WithTimeout(c.ctx, d)
	context.AfterFunc(ctx, func() {
		cancel()
		fired <- time.Now()
	})
	return fired
}
