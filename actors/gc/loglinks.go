package gc

import (
	"context"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// linked is what the runtime has as this incarnation begins. Lost: the next sweep
// lists it again.
type linked struct {
	list observed.Runtime
	err  error
}

// tidied is the result of tidying the links of logs. Late or lost: the next sweep
// does it again.
type tidied struct{ err error }

func (linked) isGCMessage() {}
func (tidied) isGCMessage() {}

// listLinked begins to tidy at the start: of containers that ran before, links may
// be missing, and of those that ended meanwhile they may be dead.
func (g *gc) listLinked(ctx *kernel.Context[Message]) {
	if g.deps.LogLinks == nil {
		return
	}
	portcall.Do(ctx, g.effect(pod.LookPool, "List", "", "links"), g.listAll,
		func(_ kernel.EffectID, l observed.Runtime, err error) Message { return linked{l, err} })
}

// tidy has the links made that are missing, and those removed that are dead. What
// is being removed gets none.
func (g *gc) tidy(ctx *kernel.Context[Message], list observed.Runtime, going map[string]bool) {
	if g.deps.LogLinks == nil {
		return
	}
	var logs []port.LinkedLog
	for i := range list.Pods {
		p := &list.Pods[i]
		for j := range p.Containers {
			if c := &p.Containers[j]; g.of[p.Ref.UID] == nil && !going[c.ID] {
				logs = append(logs, port.LinkedLogOf(p.Ref, c))
			}
		}
	}
	portcall.Do0(ctx, g.effect("", "TidyLogLinks", "", "links"),
		func(c context.Context, done func(error)) { g.deps.LogLinks.TidyLogLinks(c, logs, done) },
		func(_ kernel.EffectID, err error) Message { return tidied{err} })
}

// tidied tells people once, until it goes well again.
func (g *gc) tidied(ctx *kernel.Context[Message], m tidied) {
	if m.err != nil && !g.unlinked {
		ctx.Log().Warn().Str("error", m.err.Error()).
			Msg("cannot update the symlinks to container logs; log collectors that read them may miss containers, nothing " +
				"else is affected; retrying. --container-log-links-dir sets another directory, or none")
	}
	g.unlinked = m.err != nil
}

// logsByID are the logs of all containers.
func logsByID(list observed.Runtime) map[string]port.LinkedLog {
	logs := map[string]port.LinkedLog{}
	for i := range list.Pods {
		p := &list.Pods[i]
		for j := range p.Containers {
			logs[p.Containers[j].ID] = port.LinkedLogOf(p.Ref, &p.Containers[j])
		}
	}
	return logs
}
