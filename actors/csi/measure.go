package csi

import (
	"context"
	"fmt"
	"slices"
	"time"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// measured is what a driver says of a publication (NodeGetVolumeStats). The adapter keeps the figures.
type measured struct {
	id     kernel.EffectID
	key    decide.Key
	target decide.Target
	usage  decide.Usage
	err    error
}

// measure is this actor's own timer for asking drivers for figures.
type measure struct{}

func (measured) isCSIMessage() {}
func (measure) isCSIMessage()  {}

// mostMeasured is how many volumes a driver is asked about at once. One that hangs holds up its own figures.
const mostMeasured = 4

// turn is when a publication was last measured.
type turn struct {
	decide.Turn
	call kernel.EffectID
}

// measure asks drivers for the figures of published volumes that are due, but not before their pods may use them. The
// calls are beside those of the volume's lane: none of them waits for these.
func (a *actor) measure(ctx *kernel.Context[Message]) {
	if a.deps.StatsPeriod <= 0 {
		return
	}
	var next time.Time
	for all := a.volumes.all(); len(all) > 0; {
		of := sameDriver(all)
		all = all[len(of):]
		if again := a.measureDriver(ctx, of); next.IsZero() || !again.IsZero() && again.Before(next) {
			next = again
		}
	}
	if a.measureAgain != nil {
		a.measureAgain()
	}
	a.measureAgain = nil
	if !next.IsZero() {
		a.measureAgain = ctx.After(next.Sub(ctx.Now()), measure{})
	}
}

// sameDriver are the first volumes that are all of one driver.
func sameDriver(all []*volume) []*volume {
	n := slices.IndexFunc(all, func(v *volume) bool { return v.Driver != all[0].Driver })
	if n < 0 {
		return all
	}
	return all[:n]
}

// measureDriver asks one driver for the figures of its published volumes that are due, and returns when the next are;
// zero: none.
func (a *actor) measureDriver(ctx *kernel.Context[Message], of []*volume) time.Time {
	type place struct {
		v *volume
		t decide.Target
	}
	places, turns := make([]place, 0, len(of)), make([]decide.Turn, 0, len(of))
	for _, v := range of {
		for _, t := range inOrder(v.paths) {
			if !v.Ready(t) {
				continue
			}
			now := decide.Turn{}
			if of := v.turns[t]; of != nil {
				now = of.Turn
			}
			places, turns = append(places, place{v, t}), append(turns, now)
		}
	}
	begin, again := decide.Turns(turns, ctx.Now(), a.deps.StatsPeriod, mostMeasured)
	for _, i := range begin {
		a.askFigures(ctx, places[i].v, places[i].t)
	}
	return again
}

func (a *actor) askFigures(ctx *kernel.Context[Message], v *volume, t decide.Target) {
	m := decide.Measure{
		Key: v.Key, Target: t, Volumes: a.pods[t.Pod].usesOf(v.Key, t), Inline: v.Inline, Block: v.Block,
		Health: a.deps.VolumeHealth,
	}
	drivers, of := a.deps.Drivers, port.CSIDriver{Name: v.Driver}
	e := kernel.Effect[Message]{
		Kind: "NodeGetVolumeStats", Object: v.String(), For: string(t.Pod),
		Lane: fmt.Sprintf("stats/%s/%s/%s", v, t.Pod, t.Name), Deadline: CallDeadline,
	}
	now := &turn{Turn: decide.Turn{At: ctx.Now(), Busy: true}}
	v.turns[t] = now
	now.call = portcall.Do(ctx, e, func(c context.Context, done func(decide.Usage, error)) {
		drivers.VolumeStats(c, of, m, done)
	}, func(id kernel.EffectID, u decide.Usage, err error) Message { return measured{id, m.Key, t, u, err} })
}

// unmeasured ends the question about a publication that is about to go.
func (v *volume) unmeasured(ctx *kernel.Context[Message], t decide.Target) {
	if of := v.turns[t]; of != nil {
		ctx.Cancel(of.call)
	}
	delete(v.turns, t)
}

func (a *actor) measured(ctx *kernel.Context[Message], m measured) {
	v := a.volumes.get(m.key)
	if v == nil || v.turns[m.target] == nil || v.turns[m.target].call != m.id {
		return
	}
	of := v.turns[m.target]
	of.Busy, of.call = false, 0
	of.At = ctx.Now() // a driver that is slow is not asked the more often
	if h := m.usage.Health; m.err == nil && h != nil && h.Abnormal {
		u := a.pods[m.target.Pod]
		for _, name := range u.usesOf(m.key, m.target) {
			a.deps.Events.Record(port.Event{Pod: u.uses[name].pod, Warning: true, Reason: "VolumeConditionAbnormal",
				Message: fmt.Sprintf("Volume %s: %s", name, h.Message), At: ctx.Now()})
		}
	}
	a.measure(ctx)
}
