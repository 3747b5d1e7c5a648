package claims

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	decide "github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// driver is a DRA driver that has registered since the agent started.
type driver struct {
	port.DRADriver
	// call is the call under way. timer ends the wait for the next.
	call  kernel.Call
	timer kernel.Alarm[Message]
	// health is the watch of how its devices are, 0 for none, begun when asked. reports is what it said, stale ends the
	// wait until something of that does not count any more, unreported counts watches that failed in a row.
	health     kernel.EffectID
	asked      time.Time
	reports    decide.Reports
	stale      kernel.Alarm[Message]
	unreported int
}

// there reports whether a driver can be called.
func (a *actor) there(name string) bool {
	d := a.drivers[name]
	return d != nil && !d.Gone
}

// open starts the watch of drivers, and ends any other. It tells of all drivers again.
func (a *actor) open(ctx *kernel.Context[Message]) {
	portcall.OpenRegistrations(ctx, &a.watch, "WatchDRADrivers", a.deps.Drivers.Drivers,
		func(id kernel.EffectID, d port.DRADriver) Message { return found{id, d} },
		func(id kernel.EffectID, err error) Message { return closed{id, err} })
}

// found notes a driver that is there, or that is not any more.
func (a *actor) found(ctx *kernel.Context[Message], m found) {
	if !a.watch.Heard(m.id) {
		return
	}
	name := m.driver.Name
	d := a.drivers[name]
	known := d != nil
	if !known {
		d = &driver{DRADriver: port.DRADriver{Name: name, Gone: true}}
		a.drivers[name] = d
	}
	was := d.DRADriver
	d.DRADriver = m.driver
	switch {
	case known && was == m.driver:
		return
	case m.driver.Gone:
		a.unwatchHealth(ctx, d)
		ctx.Log().Warn().Str("driver", name).Bool("answered", known).
			Msg("DRA driver unregistered: pods that need it wait until it registers again")
		gone := &absence{since: ctx.Now()}
		a.wiping[name] = gone
		ctx.After(Grace, wipe{name, gone.since})
	default:
		ctx.Log().Info().Str("driver", name).Str("service", m.driver.Service).Msg("DRA driver registered")
		delete(a.wiping, name)
		d.call.Cancel(ctx) // to the one before it
		a.watchHealth(ctx, name, d)
		for _, c := range a.claims { // order-free: each on its own
			if p := c.parts[name]; p != nil {
				p.At = time.Time{}
			}
		}
		for _, u := range a.pods { // order-free: each on its own
			u.waits = false
		}
	}
	a.renewAll(ctx)
}

// makeParts begins what the drivers of a claim have to do.
func (c *claim) makeParts() {
	c.parts = make(map[string]*part, len(c.Drivers))
	for name := range c.Drivers { // order-free: a map again
		c.parts[name] = &part{}
	}
}

// tasks are what a driver is to be called for now, and when the next of them is due that failed; zero for none.
func (a *actor) tasks(now time.Time, driver string) (tasks []decide.Task, next time.Time) {
	for _, uid := range slices.Sorted(maps.Keys(a.claims)) {
		c := a.claims[uid]
		p := c.parts[driver]
		if p == nil || !c.Wants(driver) || !a.checkpoint.Has(c.version) {
			continue
		}
		if at := p.RetryAt(a.deps.Backoff); !at.After(now) {
			tasks = append(tasks, decide.Task{Object: c.Object(), Unprepare: c.Leaving, Alone: p.alone, Tried: p.tried})
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return tasks, next
}

// call calls a driver for what is due, if it is there and no call is under way.
func (a *actor) call(ctx *kernel.Context[Message], name string, d *driver) {
	if d.Gone || d.call.Busy() {
		return
	}
	all, next := a.tasks(ctx.Now(), name)
	tasks := decide.Batch(all)
	if len(tasks) == 0 {
		d.timer.SetAt(ctx, next, callNow{name})
		return
	}
	objects := make([]decide.Object, len(tasks))
	for i, t := range tasks {
		objects[i] = t.Object
		c := a.claims[t.UID]
		c.Called, c.parts[name].tried = true, ctx.Now()
	}
	run, of, unprepare := a.deps.Drivers.Prepare, d.DRADriver, tasks[0].Unprepare
	if unprepare {
		run = a.deps.Drivers.Unprepare
	}
	d.call.Begin(portcall.Do(ctx, kernel.Effect[Message]{
		Kind: verb(unprepare), Object: name, Lane: "driver/" + name, Deadline: CallDeadline,
	}, func(c context.Context, done func(map[types.UID]decide.Answer, error)) { run(c, of, objects, done) },
		func(id kernel.EffectID, answers map[types.UID]decide.Answer, err error) Message {
			return called{id, name, tasks, answers, err}
		}))
}

// verb is the call of a driver.
func verb(unprepare bool) string {
	if unprepare {
		return "NodeUnprepareResources"
	}
	return "NodePrepareResources"
}

// called notes what a driver has answered.
func (a *actor) called(ctx *kernel.Context[Message], m called) {
	d := a.drivers[m.driver]
	if d == nil || !d.call.Take(m.id) {
		return
	}
	for _, t := range m.tasks {
		c := a.claims[t.UID]
		if c == nil || c.Leaving != t.Unprepare {
			continue // its last pod has ended meanwhile
		}
		a.outcome(ctx, c, t, m)
	}
	a.advanceAll(ctx)
}

// outcome notes what a driver has done for one claim.
func (a *actor) outcome(ctx *kernel.Context[Message], c *claim, t decide.Task, m called) {
	p := c.parts[m.driver]
	why := ""
	if m.err != nil {
		why = fmt.Sprintf("DRA driver %s: %v", m.driver, m.err)
		// Any of the claims may be why, unless the driver was not there.
		p.alone = p.alone || len(m.tasks) > 1 && port.KindOf(m.err) != port.Unavailable
	} else {
		why = decide.Verdict(m.driver, verb(t.Unprepare), t.Object, m.answers)
	}
	if why != "" {
		p.Failures = p.Failed(ctx.Now(), why)
		return
	}
	c.parts[m.driver] = &part{tried: p.tried}
	if !t.Unprepare {
		c.Prepare(m.driver, m.answers[t.UID].Devices)
		a.changed(c)
		return
	}
	c.Done[m.driver] = true
	if c.All() {
		ctx.Log().Info().Str("claim", c.Object().String()).Msg("unprepared ResourceClaim")
		a.drop(c)
		for _, u := range a.pods { // order-free: each on its own
			u.waits = false // another claim of that name may be prepared
		}
	}
}
