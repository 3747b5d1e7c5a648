package kube

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/troupe-dev/troupe/actors/port"
)

// How long a watch waits before it tries again. client-go waits up to 60 s, so
// that many clients together don't keep an apiserver down; an agent has to be
// back within 5 s. So it depends on what happened:
//
//   - No answer: at most 1.5 s. That costs an apiserver nothing, for there
//     is none; and when there is one, all is told again within 5 s, the time for
//     a dial that was lost (transport.go) and for the list included.
//   - The apiserver answered, and said no (the credential has expired, the node
//     may not): up to 22 s. That costs it something each time, and nothing is
//     gained by asking often.
//   - It answered that something went wrong (its store does not answer) or that it
//     has too much to do, or what came is no answer of an apiserver's: at most 3 s
//     for the pods and the node themselves, of which there is one watch each; for
//     all others as if it had said no.
var (
	silentPause  = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: time.Second}
	brokenPause  = wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 2 * time.Second}
	refusedPause = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 15 * time.Second}
)

// settled is how long a watch must have gone well to begin with the shortest
// pause again.
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

// next is how long to wait after a try that lasted so long and ended so; nil
// for an end without an error, such as a history that was thrown away (410).
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

// sleep waits, and reports whether ctx has not ended.
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

// endingClock is the real one, but its waits end with ctx: the reflector waits
// on its clock where it doesn't look at its context.
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
