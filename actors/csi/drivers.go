package csi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// driver is one that has registered since the agent started, or that the CSINode has.
type driver struct {
	port.CSIDriver
	// asking is the call of NodeGetInfo under way. since counts its registrations, failures what failed in a row.
	asking   kernel.Call
	since    uint64
	failures int
	// period is the time between its answers and the next question, as its CSIDriver said when the timer was set, in
	// seconds; 0: it is asked once.
	period int64
	// timer ends the wait for the next call of NodeGetInfo.
	timer kernel.Alarm[Message]
}

// askAfter has a driver asked in a while how this node is to be shown, and not at the time that was set before.
func (d *driver) askAfter(ctx *kernel.Context[Message], wait time.Duration) {
	d.timer.SetIn(ctx, wait, ask{d.Name, d.since})
}

// there reports whether a driver can be called.
func (a *actor) there(name string) bool {
	d := a.drivers[name]
	return d != nil && !d.Gone
}

// object is what the CSIDriver of a driver says; nil while that is not known.
func (a *actor) object(name string) *decide.Driver {
	if a.of == nil {
		return nil
	}
	if d := a.of[name]; d != nil {
		return d
	}
	return decide.DriverOf(nil)
}

// open starts the watch of drivers, and ends any other. It tells of all drivers again.
func (a *actor) open(ctx *kernel.Context[Message]) {
	portcall.OpenRegistrations(ctx, &a.watch, "WatchCSIDrivers", a.deps.Drivers.Drivers,
		func(id kernel.EffectID, d port.CSIDriver) Message { return found{id, d} },
		func(id kernel.EffectID, err error) Message { return closed{id, err} })
}

// found notes a driver that is there, or that is not any more.
func (a *actor) found(ctx *kernel.Context[Message], m found) {
	if !a.watch.Heard(m.id) {
		return
	}
	name := m.driver.Name
	d := a.drivers[name]
	if d == nil {
		d = a.add(name)
	}
	if d.CSIDriver == m.driver {
		return
	}
	d.CSIDriver = m.driver
	d.since++
	d.asking.Cancel(ctx)
	d.failures = 0
	d.timer.Stop()
	if m.driver.Gone {
		ctx.Log().Warn().Str("driver", name).
			Msg("CSI driver unregistered: what is mounted stays, and mounts of its volumes wait until it registers again")
		ctx.After(Grace, hide{name, d.since})
		a.advanceAll(ctx)
		return
	}
	ctx.Log().Info().Str("driver", name).Str("socket", m.driver.Endpoint).Msg("CSI driver registered")
	for _, v := range a.volumes.all() {
		if v.Driver == name {
			v.Retry()
			delete(a.logged, v.Key)
		}
	}
	a.ask(ctx, d)
	a.advanceAll(ctx)
}

// add notes a driver that is not there.
func (a *actor) add(name string) *driver {
	d := &driver{CSIDriver: port.CSIDriver{Name: name, Gone: true}}
	a.drivers[name] = d
	return d
}

// hide shows a driver no more that has not come back. It is not done at once: for schedulers, a node without an entry
// of a driver has no limit of its volumes.
func (a *actor) hide(ctx *kernel.Context[Message], m hide) {
	if d := a.drivers[m.driver]; d == nil || d.since != m.since {
		return
	}
	ctx.Log().Warn().Str("driver", m.driver).
		Msg("CSI driver did not register again: removing it from the CSINode until it does")
	a.infos[m.driver] = nil
	a.version++
	a.show(ctx)
}

// ask asks a driver how this node is to be shown.
func (a *actor) ask(ctx *kernel.Context[Message], d *driver) {
	if d.Gone || d.asking.Busy() {
		return
	}
	drivers, of := a.deps.Drivers, d.CSIDriver
	e := kernel.Effect[Message]{Kind: "NodeGetInfo", Object: d.Name, Lane: "info/" + d.Name, Deadline: CallDeadline}
	d.asking.Begin(portcall.Do(ctx, e, func(c context.Context, done func(decide.Info, error)) {
		drivers.NodeInfo(c, of, done)
	}, func(id kernel.EffectID, info decide.Info, err error) Message { return informed{id, of.Name, info, err} }))
}

func (a *actor) informed(ctx *kernel.Context[Message], m informed) {
	d := a.drivers[m.driver]
	if d == nil || !d.asking.Take(m.id) {
		return
	}
	if m.err != nil {
		d.failures++
		ctx.Log().Warn().Str("driver", d.Name).Str("error", m.err.Error()).
			Msg("NodeGetInfo of the CSI driver failed: the CSINode may lack the driver; retrying")
		if d.failures == eventAfter {
			a.deps.Events.Record(port.Event{Node: a.deps.Node, Warning: true, Reason: "CSIDriverNotShown", At: ctx.Now(),
				Message: fmt.Sprintf("CSI driver %s has registered, but does not say how this node is to be shown. "+
					"Until it does, no volumes of it are attached here, and the CSINode may lack it: %s; "+
					"look at the log of the driver",
					d.Name, m.err)})
		}
		d.askAfter(ctx, backoff.Retry(a.deps.Backoff, d.failures))
		return
	}
	d.failures, d.period = 0, 0
	if was := a.infos[d.Name]; was == nil || was.NodeID != m.info.NodeID || was.MaxVolumes != m.info.MaxVolumes ||
		!maps.Equal(was.Topology, m.info.Topology) {
		a.infos[d.Name] = &m.info
		a.version++
	}
	a.keepAsking(ctx, d)
	a.show(ctx)
}

// keepAsking has a driver that is shown asked for its numbers again and again, as its CSIDriver says
// (nodeAllocatableUpdatePeriodSeconds), also if that was not known before, or has changed.
func (a *actor) keepAsking(ctx *kernel.Context[Message], d *driver) {
	of := a.object(d.Name)
	if d.Gone || d.asking.Busy() || d.failures > 0 || a.infos[d.Name] == nil || of == nil || of.InfoPeriod == d.period {
		return // once it answers, it is asked again
	}
	if d.period = of.InfoPeriod; d.period == 0 {
		d.timer.Stop()
		return
	}
	d.askAfter(ctx, time.Duration(d.period)*time.Second)
}

// watchObjects starts the watch of CSIDrivers, and ends any other.
func (a *actor) watchObjects(ctx *kernel.Context[Message]) {
	ctx.Cancel(a.objects)
	a.watches++
	s := port.Selection{Kind: port.CSIDriverKind}
	a.objects = portcall.Watch(ctx, kernel.Effect[Message]{Kind: "WatchCSIDriverObjects"}, a.watches, a.deps.API, s,
		func(id kernel.EffectID, c port.APIChange) Message { return told{id, c} },
		func(id kernel.EffectID, _ error) Message { return ended{id} })
}

func (a *actor) told(ctx *kernel.Context[Message], m told) {
	if m.id != a.objects {
		return
	}
	switch c := m.change.(type) {
	case port.APIReplaced:
		a.of = map[string]*decide.Driver{}
		for _, o := range c.Objects {
			a.of[o.GetName()] = decide.DriverOf(o.(*storagev1.CSIDriver))
		}
	case port.APISet:
		if a.of != nil {
			a.of[c.Object.GetName()] = decide.DriverOf(c.Object.(*storagev1.CSIDriver))
		}
	case port.APIDeleted:
		delete(a.of, c.Object.GetName())
	case port.APIBroken:
		ctx.Log().Warn().Str("error", c.Err.Error()).Msg("cannot watch CSIDriver objects; retrying")
	}
	for _, name := range slices.Sorted(maps.Keys(a.drivers)) {
		a.keepAsking(ctx, a.drivers[name])
	}
	a.advanceAll(ctx)
}
