package shutdown

import (
	"time"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// saveFile is the checkpoint with the times of the last shutdown.
var saveFile = checkpoint.File[times]{
	Name:          "shutdown",
	Without:       "continuing without it: the metrics of the last shutdown of the machine are lost",
	Unwritten:     "cannot write the shutdown checkpoint: metrics of this shutdown are lost when the agent stops",
	RetryWithNext: true, // the machine goes down
}

// times are when the last shutdown began and ended, for people. Over is zero if it has not ended.
type times struct {
	Begun time.Time `json:"start,omitzero"`
	Over  time.Time `json:"end,omitzero"`
}

// journal keeps the times of the last shutdown beyond it.
type journal struct {
	checkpoint.Journal[Message, times]
	last times
	// goesOn: an earlier agent began the shutdown under way.
	goesOn bool
}

func (a *actor) load(ctx *kernel.Context[Message]) {
	a.Load(ctx, a.deps.Checkpoints, &saveFile, func(e checkpoint.Event) Message { return journaled{e} })
}

func (a *actor) journaled(ctx *kernel.Context[Message], e checkpoint.Event) {
	switch news, before := a.Hear(ctx, e); news {
	case checkpoint.Loaded:
		a.loaded(ctx, before)
	case checkpoint.Saved:
		a.write(ctx)
	default:
	}
}

func (a *actor) loaded(ctx *kernel.Context[Message], before times) {
	switch {
	case a.last.Begun.IsZero():
		a.last = before
	case a.goesOn && !before.Begun.IsZero() && before.Over.IsZero():
		a.last.Begun = before.Begun
	}
	a.showTimes()
	if a.down() {
		a.write(ctx)
	}
}

// noteBegin notes that a shutdown began. goesOn: it had begun when this actor did.
func (a *actor) noteBegin(ctx *kernel.Context[Message], goesOn bool) {
	if unended := goesOn && !a.last.Begun.IsZero() && a.last.Over.IsZero(); !unended {
		a.last = times{Begun: ctx.Now()}
	}
	a.goesOn = goesOn
	a.save(ctx)
}

// noteEnd notes that it ended.
func (a *actor) noteEnd(ctx *kernel.Context[Message]) {
	a.last.Over = ctx.Now()
	a.save(ctx)
}

// save writes the times that have changed, and shows them, when it is known what they were.
func (a *actor) save(ctx *kernel.Context[Message]) {
	if a.Changed(); a.Known() {
		a.showTimes()
		a.write(ctx)
	}
}

func (a *actor) write(ctx *kernel.Context[Message]) {
	a.Write(ctx, func() times { return a.last })
}

func (a *actor) showTimes() {
	if a.deps.Counts != nil && !a.last.Begun.IsZero() {
		a.deps.Counts.ShutDown(a.last.Begun, a.last.Over)
	}
}
