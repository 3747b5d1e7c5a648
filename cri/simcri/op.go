package simcri

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
)

// op is one running call. The runtime's lock guards it.
type op = simport.Op

// begin makes a call. reserve, if not nil, runs now and may refuse; work runs
// when the latency is over; fail gives the caller an error. reserve and work
// run under the lock.
func (r *Runtime) begin(ctx context.Context, c Call, fail func(error), reserve func(*op) *port.Error, work func(*op)) {
	var fault Fault
	if r.cfg.Fault != nil {
		fault = r.cfg.Fault(c)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[c.Method]++
	o := r.inflight.Begin(c.Method.String(), c.Object, fault, fail)
	switch {
	case o.Canceled(ctx):
	case r.down:
		o.RefuseAfter(refusedConnection, &port.Error{Kind: port.Unavailable, Detail: "the runtime is not running"})
	case r.loading:
		o.RefuseAfter(refusedConnection, &port.Error{Kind: port.Unavailable, Detail: "server is not initialized yet"})
	case fault.Hang:
		o.Hang(ctx)
	default:
		o.Start(ctx, r.cfg.Latencies[c.Method].Sample(r.lat), reserve, work)
	}
}

// again delays the call's work by d.
func (r *Runtime) again(o *op, d time.Duration, work func(*op)) {
	if r.down {
		o.Drop()
		return
	}
	o.Again(d, work)
}

// after runs step under the lock, d from now, and then its callbacks.
func (r *Runtime) after(d time.Duration, step func()) (stop func() bool) {
	return r.mu.After(d, step)
}

// locked runs step under the lock for callers that are not clock callbacks: its callbacks run
// from one.
func (r *Runtime) locked(step func()) { r.mu.Do(step) }

// now is the machine's wall clock, as the runtime notes it.
func (r *Runtime) now() int64 { return r.cfg.Clock.Now().UnixNano() }

// uptime is the age of the runtime, whatever the wall clock was set to meanwhile.
func (r *Runtime) uptime() time.Duration { return r.cfg.Clock.Now().Sub(r.began) }

// ran is how long c has run, or ran.
func (r *Runtime) ran(c *container) time.Duration {
	if c.finishedAt != 0 {
		return max(0, time.Duration(c.finishedAt-c.startedAt))
	}
	return r.uptime() - c.began
}
