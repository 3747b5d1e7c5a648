package kube

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/troupe-dev/troupe/actors/port"
)

// How long a watch waits before it retries. client-go waits up to 60 s, to protect an apiserver
// from many clients; an agent must be back within 5 s. So the pause depends on the failure:
//
//   - No answer: at most 1.5 s. There is no apiserver to overload. When it is back, all is read
//     again within 5 s, including a lost dial (transport.go) and the list.
//   - The apiserver refused (the credential has expired, the node may not): up to 22 s. Each
//     request costs the apiserver something, and frequent ones gain nothing.
//   - It answered with an internal error (its store does not answer), with overload, or with
//     an answer that is not an apiserver's: at most 3 s for the pods and the node itself,
//     which have one watch each; for all others as if it had refused.
var (
	silentPause  = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: time.Second}
	brokenPause  = wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 2 * time.Second}
	refusedPause = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 15 * time.Second}
)

// settled is how long a watch must have worked before its next pause is the shortest again.
const settled = 10 * time.Second

// pauses are those of one watch.
type pauses struct {
	kind                    port.APIKind
	silent, broken, refused wait.Backoff
}

// newPauses are those of a watch for that kind.
func newPauses(k port.APIKind) pauses {
	p := pauses{kind: k, silent: silentPause, broken: refusedPause, refused: refusedPause}
	if k == port.PodKind || k == port.NodeKind {
		p.broken = brokenPause
	}
	return p
}

// next is the pause after a watch that lasted so long and ended with err; nil for an end without
// an error, such as an expired history (410).
func (p *pauses) next(err error, lasted time.Duration) time.Duration {
	if lasted >= settled {
		*p = newPauses(p.kind)
	}
	if err == nil {
		return p.silent.Step()
	}
	switch kindOfError(err) {
	case port.Unavailable, port.Deadline:
		return p.silent.Step()
	case port.Other, port.TooManyRequests, port.Unsupported:
		return p.broken.Step()
	default:
		return p.refused.Step()
	}
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
