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
//   - Nobody answered: at most 1.5 s. That costs an apiserver nothing, for there
//     is none; and when there is one, all is told again within 5 s, the time for
//     a dial that was lost (transport.go) and for the list included.
//   - The apiserver answered, and said no (the credential has expired, the node
//     may not, an internal error): up to 22 s. That costs it something each time,
//     and nothing is gained by asking often.
var (
	silentPause  = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: time.Second}
	refusedPause = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 15 * time.Second}
)

// settled is how long a watch must have gone well to begin with the shortest
// pause again.
const settled = 10 * time.Second

// pauses are those of one watch.
type pauses struct{ silent, refused wait.Backoff }

func newPauses() pauses { return pauses{silent: silentPause, refused: refusedPause} }

// next is how long to wait after a try that lasted so long and ended so; nil
// for an end without an error, such as a history that was thrown away (410).
func (p *pauses) next(err error, lasted time.Duration) time.Duration {
	if lasted >= settled {
		*p = newPauses()
	}
	if err == nil {
		return p.silent.Step()
	}
	switch kindOfError(err) {
	case port.Unavailable, port.Deadline:
		return p.silent.Step()
	default:
		return p.refused.Step()
	}
}

// sleep waits, and says whether ctx has not ended.
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
