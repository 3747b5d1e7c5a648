package claims

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	decide "github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// firstReport is how long a driver has for its first report. Until then, what was said before stays.
const firstReport = 30 * time.Second

// watchHealth has a driver tell how its devices are, if it can.
//
//	(none) ──registers──► watched ──reported──► watched ──time over──► Unknown
//	                        │ └─ended: Unknown, and again later
//	                        └─the driver has no such service: Unknown for good
func (a *actor) watchHealth(ctx *kernel.Context[Message], name string, d *driver) {
	a.unwatchHealth(ctx, d)
	if !a.deps.Health || d.Gone {
		return
	}
	a.watches++
	d.asked = ctx.Now()
	d.stale.SetIn(ctx, firstReport, expired{name})
	self, drivers, of := ctx.Self(), a.deps.Drivers, d.DRADriver
	d.health = ctx.Do(kernel.Effect[Message]{
		Kind: "NodeWatchResources", Object: name, Standing: true,
		Lane: fmt.Sprintf("health/%d/%d", ctx.Incarnation(), a.watches),
		Run: func(c context.Context, id kernel.EffectID, done func(Message)) {
			drivers.Health(c, of, func(all []decide.Report) { self.Tell(reported{id, name, all}) },
				func(err error) { done(unreported{id, name, err}) })
		},
	})
}

// unwatchHealth ends that, and forgets what was said.
func (a *actor) unwatchHealth(ctx *kernel.Context[Message], d *driver) {
	ctx.Cancel(d.health)
	d.health, d.reports = 0, nil
	d.stale.Stop()
}

// reported notes what a driver says of its devices.
func (a *actor) reported(ctx *kernel.Context[Message], m reported) {
	d := a.drivers[m.driver]
	if d == nil || d.health != m.id {
		return
	}
	if d.reports == nil {
		d.reports = decide.Reports{}
	}
	d.unreported = 0
	d.reports.Add(ctx.Now(), m.all)
	a.expire(ctx, m.driver, d)
}

// expire tells pods how their devices are, now and when a report does not count any more.
func (a *actor) expire(ctx *kernel.Context[Message], name string, d *driver) {
	d.stale.SetAt(ctx, d.reports.Next(ctx.Now()), expired{name})
	a.renewAll(ctx)
}

// unreported notes that a driver tells nothing any more.
func (a *actor) unreported(ctx *kernel.Context[Message], m unreported) {
	d := a.drivers[m.driver]
	if d == nil || d.health != m.id {
		return
	}
	a.unwatchHealth(ctx, d)
	if port.KindOf(m.err) != port.Unsupported {
		d.unreported++
		ctx.After(backoff.Retry(a.deps.Backoff, d.unreported), watchAgain{m.driver})
	}
	a.renewAll(ctx)
}

// report is what is known of a device. It has no Health if that may be known soon.
func (a *actor) report(ctx *kernel.Context[Message], name, pool, device string) decide.Report {
	d := a.drivers[name]
	switch {
	case d == nil && !a.looked:
		return decide.Report{}
	case d == nil:
		return decide.Report{Health: v1.ResourceHealthStatusUnknown}
	case d.health != 0 && d.reports == nil && ctx.Now().Sub(d.asked) < firstReport:
		return decide.Report{}
	}
	r := d.reports.Of(ctx.Now(), pool, device)
	if !a.deps.HealthMessages {
		r.Message = ""
	}
	return r
}
