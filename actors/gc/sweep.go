package gc

import (
	"context"
	"math"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podgc"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// list begins a sweep. Not while another looks at what there is: the answers of a machine that was slow would
// all come at once, and what was removed after the first be removed again after each.
func (g *gc) list(ctx *kernel.Context[Message]) {
	if g.looking {
		return
	}
	g.looking = true
	portcall.Do(ctx, g.effect("", "List", "", "sweep"), g.listAll,
		func(_ kernel.EffectID, l observed.Runtime, err error) Message { return found{list: l, err: err} })
}

// sweepLater sets the timer of the next sweep.
func (g *gc) sweepLater(ctx *kernel.Context[Message]) {
	period := g.deps.Period
	if !g.swept {
		period = min(period, early)
	}
	ctx.After(period, Sweep{})
}

// found continues with a sweep: the host after the runtime, and then the pods.
func (g *gc) found(ctx *kernel.Context[Message], m found) {
	g.looking = !m.last && m.err == nil
	switch {
	case m.last:
		self := ctx.Self()
		reclaiming := g.reclaims.wanted()
		g.deps.Living(reclaiming, func(pods map[types.UID]bool, all bool) { self.Tell(living{pods, all, reclaiming, m}) })
	case m.err != nil: // pleg has it in the log; the next sweep comes
		g.blind(ctx, m.err)
		g.reclaims.answer(m.err)
	default:
		portcall.Do(ctx, g.effect("", "PodDirs", "", "sweep"), g.deps.Host.PodDirs,
			func(_ kernel.EffectID, dirs []types.UID, err error) Message { return found{m.list, dirs, true, err} })
	}
}

// blind tells people that a sweep could not look at what there is.
func (g *gc) blind(ctx *kernel.Context[Message], err error) {
	g.deps.Events.Record(port.Event{
		Node: g.deps.Node, Warning: true, Reason: "ContainerGCFailed", Message: err.Error(), At: ctx.Now(),
	})
}

// sweep removes what the policy says can go, and what is left on the host of
// pods of which there is nothing else.
func (g *gc) sweep(ctx *kernel.Context[Message], m living) {
	g.forget(m.list)
	lives := m.pods
	if !m.all {
		lives = podgc.All(m.list)
	}
	policy := g.deps.Policy
	if m.reclaiming {
		policy.MinAge = 0 // room is needed
		g.reclaims.begin()
		for uid, c := range g.of { // order-free: a set
			if c.later {
				lives[uid] = false // who waits for room waits for its containers and logs
			}
		}
	}
	plan := podgc.Plan(m.list, lives, policy, ctx.Now())
	waits := map[string]bool{} // sandboxes of containers that wait
	logs, going, removing := logsByID(m.list), map[string]bool{}, map[string]bool{}
	for _, e := range ctx.InFlight() {
		removing[e.Kind+" "+e.Object] = true
	}
	for _, r := range plan {
		if c := g.of[r.Pod.UID]; c != nil && (!c.later || !m.reclaiming) {
			continue
		}
		if removing[removal(r)] || !m.reclaiming && g.waits(ctx, r) || waits[r.ID] {
			waits[r.Sandbox] = true
			continue
		}
		if r.Container {
			g.reclaims.add(g.removeContainer(ctx, r.Pod.UID, logs[r.ID]))
			going[r.ID] = true
		} else {
			g.removeSandbox(ctx, r.Pod.UID, r.ID)
		}
	}
	g.prune(ctx, m)
	g.reclaims.settle(nil)
	if m.reclaiming {
		g.restLater(ctx)
	}
	g.tidy(ctx, m.list, going)
	if m.err != nil {
		ctx.Log().Warn().Str("error", m.err.Error()).Msg("cannot list pod directories")
		g.blind(ctx, m.err)
	}
	if !m.all { // some pods that there are were not named
		return
	}
	g.swept = true
	known := podgc.All(m.list)
	g.orphans = nil
	for _, uid := range m.dirs {
		if _, is := m.pods[uid]; !is && !known[uid] && g.of[uid] == nil {
			g.orphans = append(g.orphans, uid)
		}
	}
	if !g.telling {
		g.abandon(ctx)
	}
}

// abandon tells podset of some orphans. It leaves those alone that it knows by now.
func (g *gc) abandon(ctx *kernel.Context[Message]) {
	n := min(len(g.orphans), orphanBatch)
	for _, uid := range g.orphans[:n] {
		if g.of[uid] == nil {
			ctx.Log().Info().Str("uid", string(uid)).Msg("removing orphaned pod directories")
			g.deps.Abandoned(uid)
		}
	}
	g.orphans = g.orphans[n:]
	if g.telling = len(g.orphans) > 0; g.telling {
		ctx.After(orphansEvery, more{})
	}
}

func (g *gc) removeContainer(ctx *kernel.Context[Message], uid types.UID, log port.LinkedLog) kernel.EffectID {
	return remove(g, ctx, pod.TeardownPool, "RemoveContainer", uid, log.ID,
		pod.RemoveLinked(g.deps.Runtime.RemoveContainer, g.deps.LogLinks, log))
}

func (g *gc) removeSandbox(ctx *kernel.Context[Message], uid types.UID, id string) kernel.EffectID {
	return remove(g, ctx, pod.TeardownPool, "RemovePodSandbox", uid, id, g.deps.Runtime.RemovePodSandbox)
}

// remove is one removal, of object, for a pod.
func remove[T ~string](
	g *gc, ctx *kernel.Context[Message], pool, kind string, uid types.UID, object T,
	run func(context.Context, T, func(error)),
) kernel.EffectID {
	what := kind + " " + string(object)
	e := g.effect(pool, kind, string(object), kind+"/"+string(object))
	if c := g.of[uid]; c != nil {
		e.Tag = c.task
	}
	return portcall.Do0(ctx, e,
		func(c context.Context, done func(error)) { run(c, object, done) },
		func(id kernel.EffectID, err error) Message { return removed{id, uid, string(object), what, err} })
}

// afterPods is the rank of all that is removed: pods that wait to end go first.
const afterPods = math.MaxInt64

func (g *gc) effect(pool, kind, object, lane string) kernel.Effect[Message] {
	return kernel.Effect[Message]{Kind: kind, Object: object, Lane: lane, Pool: pool, Rank: afterPods,
		Deadline: g.deps.Deadline}
}

func (g *gc) listAll(c context.Context, done func(observed.Runtime, error)) {
	g.deps.Runtime.List(c, "", observed.WholeOnly(done))
}
