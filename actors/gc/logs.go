package gc

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// pruned is the result of removing the logs of containers that are gone. Late or
// lost: the next sweep does it again.
type pruned struct {
	id  kernel.EffectID
	err error
}

func (pruned) isGCMessage() {}

// prune has the logs removed of incarnations that the runtime has no more. The
// list says of which: those before the oldest that it has. So one that is being
// made meanwhile keeps its log.
// All logs of pods of which nothing is kept are removed.
func (g *gc) prune(ctx *kernel.Context[Message], m living) {
	oldest := oldestLogs(m.list)
	if m.all {
		oldest = append(oldest, logsOfSpent(m.list, m.pods)...)
	}
	if g.deps.Logs == nil || len(oldest) == 0 {
		return
	}
	id := portcall.Do0(ctx, g.effect("", "PruneLogs", "", "sweep"),
		func(c context.Context, done func(error)) { g.deps.Logs.PruneLogs(c, oldest, done) },
		func(id kernel.EffectID, err error) Message { return pruned{id, err} })
	g.reclaims.add(id)
}

// logsOfSpent say that no log of a pod is kept that is in pods as false: the oldest to keep is one that was never made.
func logsOfSpent(list observed.Runtime, pods map[types.UID]bool) (out []port.LogRef) {
	for i := range list.Pods {
		p := &list.Pods[i]
		if keep, is := pods[p.Ref.UID]; keep || !is {
			continue
		}
		for j := range p.Containers {
			ref := port.LinkedLogOf(p.Ref, &p.Containers[j]).LogRef
			ref.Attempt++
			out = append(out, ref)
		}
	}
	return out
}

// oldestLogs are the logs of the oldest incarnation of each container that was
// restarted, in order.
func oldestLogs(list observed.Runtime) (out []port.LogRef) {
	for i := range list.Pods {
		p := &list.Pods[i]
		for j := range p.Containers {
			out = append(out, port.LinkedLogOf(p.Ref, &p.Containers[j]).LogRef)
		}
	}
	slices.SortFunc(out, func(x, y port.LogRef) int {
		return cmp.Or(cmp.Compare(x.UID, y.UID), cmp.Compare(x.Container, y.Container), cmp.Compare(x.Attempt, y.Attempt))
	})
	out = slices.CompactFunc(out, func(x, y port.LogRef) bool { return x.UID == y.UID && x.Container == y.Container })
	return slices.DeleteFunc(out, func(r port.LogRef) bool { return r.Attempt == 0 })
}
