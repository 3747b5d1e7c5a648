package csi

import (
	"context"
	"fmt"

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

// measure is this actor's own timer for asking a driver for figures.
type measure struct{ driver string }

func (measured) isCSIMessage() {}
func (measure) isCSIMessage()  {}

// mostMeasured is how many volumes a driver is asked about at once. One that hangs holds up its own figures.
const mostMeasured = 4

// figures are the turns of the publications of one driver, and the wait for the next of them.
type figures struct {
	decide.Turns
	timer kernel.Soonest[Message]
}

// turn is that of one publication, and the call under way.
type turn struct {
	decide.Turn
	call kernel.Call
}

// measurable gives a turn to the publications of a volume that pods may use by now. The calls are beside those of the
// volume's lane: none of them waits for these.
func (a *actor) measurable(ctx *kernel.Context[Message], v *volume) {
	if a.deps.StatsPeriod <= 0 || len(v.turns) == len(v.paths) {
		return
	}
	f := a.figures[v.Driver]
	if f == nil {
		f = &figures{}
		a.figures[v.Driver] = f
	}
	for _, t := range inOrder(v.paths) {
		if v.turns[t] == nil && v.Ready(t) {
			v.turns[t] = &turn{Turn: decide.Turn{Key: v.Key, Target: t}}
			f.Add(&v.turns[t].Turn)
		}
	}
	a.measure(ctx, v.Driver)
}

// measure asks a driver for the figures that are due.
func (a *actor) measure(ctx *kernel.Context[Message], driver string) {
	f := a.figures[driver]
	begin, again := f.Due(ctx.Now(), a.deps.StatsPeriod, mostMeasured)
	for _, t := range begin {
		a.askFigures(ctx, a.volumes.get(t.Key), t.Target)
	}
	if !again.IsZero() {
		f.timer.SetAt(ctx, again, measure{driver})
	}
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
	v.turns[t].call.Begin(portcall.Do(ctx, e, func(c context.Context, done func(decide.Usage, error)) {
		drivers.VolumeStats(c, of, m, done)
	}, func(id kernel.EffectID, u decide.Usage, err error) Message { return measured{id, m.Key, t, u, err} }))
}

// unmeasured ends the turns of a publication that is about to go. Others are asked about when this message is over:
// they may be about to go as well.
func (a *actor) unmeasured(ctx *kernel.Context[Message], v *volume, t decide.Target) {
	of := v.turns[t]
	if of == nil {
		return
	}
	of.call.Cancel(ctx)
	delete(v.turns, t)
	if f := a.figures[v.Driver]; f.Drop(&of.Turn) {
		f.timer.SetAt(ctx, ctx.Now(), measure{v.Driver})
	}
}

func (a *actor) measured(ctx *kernel.Context[Message], m measured) {
	v := a.volumes.get(m.key)
	if v == nil || v.turns[m.target] == nil || !v.turns[m.target].call.Take(m.id) {
		return
	}
	of := v.turns[m.target]
	a.figures[v.Driver].Answered(&of.Turn, ctx.Now()) // a driver that is slow is not asked the more often
	if h := m.usage.Health; m.err == nil && h != nil && h.Abnormal {
		u := a.pods[m.target.Pod]
		for _, name := range u.usesOf(m.key, m.target) {
			a.deps.Events.Record(port.Event{Pod: u.uses[name].pod, Warning: true, Reason: "VolumeConditionAbnormal",
				Message: fmt.Sprintf("Volume %s: %s", name, h.Message), At: ctx.Now()})
		}
	}
	a.measure(ctx, v.Driver)
}
