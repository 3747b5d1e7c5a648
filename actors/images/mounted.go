package images

import (
	"context"
	"maps"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// After the start of the agent, some pods may not be known yet. A round that somebody asked for asks about them again
// every askEvery, for patience.
const (
	askEvery = 2 * time.Second
	patience = 30 * time.Second
)

// ask asks which images pods have as volumes. Those of pods that asked this actor for them are held already; of pods
// that an earlier agent started, or an earlier incarnation of this actor knew, only their specs tell.
func (a *images) ask(ctx *kernel.Context[Message]) {
	type answer struct {
		names []string
		all   bool
	}
	c := &a.collector
	c.stage = asking
	c.pending = portcall.Do(ctx, a.collecting("AskPods", ""),
		func(_ context.Context, done func(answer, error)) {
			a.deps.Collect.Mounted(func(names []string, all bool) { done(answer{names, all}, nil) })
		},
		func(id kernel.EffectID, m answer, err error) Message { return mounted{id, m.names, m.all, err} })
}

// mounted goes on with the round, or ends it: nothing is removed as long as a pod that is not known may have it as a
// volume. Before pods are evicted, the disk is worth more than such an image, if the sources of pods stay silent.
func (a *images) mounted(ctx *kernel.Context[Message], m mounted) {
	if !a.answered(ctx, m.id, m.err) {
		return
	}
	switch c := &a.collector; {
	case m.all, c.all() && ctx.Now().Sub(c.begun) >= patience:
		maps.Copy(c.used, imagecache.InUse(c.list, &observed.Runtime{}, m.names))
		a.plan(ctx)
	case c.all():
		c.pending = 0
		ctx.After(askEvery, askAgain{c.begun})
	default:
		a.end(ctx)
	}
}

func (a *images) askAgain(ctx *kernel.Context[Message], m askAgain) {
	if c := &a.collector; c.stage == asking && c.pending == 0 && c.begun.Equal(m.begun) {
		a.ask(ctx)
	}
}
