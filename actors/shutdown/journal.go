package shutdown

import (
	"time"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// saveFile is the checkpoint with the times of the last shutdown.
var saveFile = checkpoint.File[times]{
	Name:    "shutdown",
	Without: "continuing without it: the metrics of the last shutdown of the machine are lost",
}

// times are when the last shutdown began and ended, for people. Over is zero if it has not ended.
type times struct {
	Begun time.Time `json:"start,omitzero"`
	Over  time.Time `json:"end,omitzero"`
}

// journal keeps the times of the last shutdown beyond it. A failed write loses them.
type journal struct {
	last times
	// loading is the running read, 0 for none. goesOn: an earlier agent began the shutdown under way.
	loading kernel.EffectID
	goesOn  bool
}

func (a *actor) load(ctx *kernel.Context[Message]) {
	a.loading = checkpoint.Load(ctx, a.deps.Checkpoints, &saveFile,
		func(id kernel.EffectID, content checkpoint.Content) Message { return loaded{id, content} })
}

func (a *actor) loaded(ctx *kernel.Context[Message], m loaded) {
	if m.id != a.loading {
		return
	}
	a.loading = 0
	before := saveFile.Take(ctx.Log(), &m.content)
	switch {
	case a.last.Begun.IsZero():
		a.last = before
	case a.goesOn && !before.Begun.IsZero() && before.Over.IsZero():
		a.last.Begun = before.Begun
	}
	if a.down() {
		a.save(ctx)
		return
	}
	a.showTimes()
}

// noteBegin notes that a shutdown began. goesOn: it had begun when this actor did.
func (a *actor) noteBegin(ctx *kernel.Context[Message], goesOn bool) {
	if unended := goesOn && !a.last.Begun.IsZero() && a.last.Over.IsZero(); !unended {
		a.last = times{Begun: ctx.Now()}
	}
	if a.goesOn = goesOn; a.loading == 0 {
		a.save(ctx)
	}
}

// noteEnd notes that it ended.
func (a *actor) noteEnd(ctx *kernel.Context[Message]) {
	if a.last.Over = ctx.Now(); a.loading == 0 {
		a.save(ctx)
	}
}

func (a *actor) save(ctx *kernel.Context[Message]) {
	a.showTimes()
	checkpoint.Save(ctx, a.deps.Checkpoints, &saveFile, a.last,
		func(id kernel.EffectID, err error) Message { return saved{id, err} })
}

func (a *actor) showTimes() {
	if a.deps.Counts != nil && !a.last.Begun.IsZero() {
		a.deps.Counts.ShutDown(a.last.Begun, a.last.Over)
	}
}

func (a *actor) saved(ctx *kernel.Context[Message], m saved) {
	if m.err != nil {
		ctx.Log().Warn().Str("checkpoint", saveFile.Name).Str("error", m.err.Error()).
			Msg("cannot write the shutdown checkpoint: metrics of this shutdown are lost when the agent stops")
	}
}
