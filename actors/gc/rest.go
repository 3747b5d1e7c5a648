package gc

import (
	"maps"
	"slices"

	"github.com/troupe-dev/troupe/actors/kernel"
)

// rest puts a pod off for a moment.
func (g *gc) rest(ctx *kernel.Context[Message], of task) {
	g.of[of.ref.UID] = newCollection(of)
	g.last = ctx.Now()
	if len(g.resting) == 0 {
		g.first = g.last
		ctx.After(rest, settled{})
	}
	g.resting = append(g.resting, of.ref.UID)
}

// restLater has what was to be collected later rest, as what is collected at once.
func (g *gc) restLater(ctx *kernel.Context[Message]) {
	for _, uid := range slices.Sorted(maps.Keys(g.of)) {
		if c := g.of[uid]; c.later {
			g.rest(ctx, c.task)
		}
	}
}

// settled begins with what rests, if nothing came lately.
func (g *gc) settled(ctx *kernel.Context[Message]) {
	until := g.last.Add(rest)
	if most := g.first.Add(restMost); most.Before(until) {
		until = most
	}
	if left := until.Sub(ctx.Now()); left > 0 && left <= rest { // else the clock was set back
		ctx.After(left, settled{})
		return
	}
	begin := g.resting
	g.resting = nil
	for _, uid := range begin {
		g.collect(ctx, g.of[uid])
	}
}
