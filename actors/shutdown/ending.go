package shutdown

import (
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/shutdown"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/podset"
)

// round is one shutdown. number is its number; answers with another one are of an earlier shutdown.
type round struct {
	number int
	since  time.Time
	groups shutdown.Groups
	// progress is how far it has come, asked whom this incarnation asked to end.
	progress shutdown.Progress
	asked    asked
	// until is how long statuses are waited for, once the last group is over.
	until time.Time
	// left are the pods that had not ended at the last look, for people.
	left []string
}

func (a *actor) becomeEnding(ctx *kernel.Context[Message]) {
	goesOn := a.state == unknown
	a.round = round{number: a.number + 1, since: ctx.Now(), groups: a.fitted(), asked: asked{}}
	a.state = ending
	ctx.Log().Info().Dur("atMost", a.groups.Total()).Int("groups", len(a.groups)).
		Msg("the machine is shutting down: terminating pods, lowest priority first")
	a.record(ctx, "Shutdown manager detected shutdown event")
	a.noteBegin(ctx, goesOn)
	a.look(ctx, look{a.number})
}

// look tells others again what they may have lost in a crash, and asks for the pods.
func (a *actor) look(ctx *kernel.Context[Message], m look) {
	if m.round != a.number || a.state != ending && a.state != writing {
		return
	}
	a.tell()
	self := ctx.Self()
	a.deps.Pods(func(i podset.Inventory) { self.Tell(seen{m.round, i}) })
	next := Look
	if now := ctx.Now(); a.state == writing && !a.until.After(now) {
		a.becomeOver(ctx)
		return
	} else if a.state == writing {
		next = min(next, a.until.Sub(now))
	} else if g := a.progress; g.Group < len(a.groups) && !g.Since.IsZero() {
		if left := a.groups[g.Group].Period - now.Sub(g.Since); left > 0 {
			next = min(next, left)
		}
	}
	ctx.After(next, look{m.round})
}

func (a *actor) seen(ctx *kernel.Context[Message], m seen) {
	if m.round != a.number {
		return
	}
	switch a.state {
	case unknown, locking, ready, over:
		return
	case ending, writing:
	}
	if a.waits(ctx, &m.pods) {
		return
	}
	now := ctx.Now()
	step := a.groups.Next(a.progress, a.podsOf(&m.pods, now), now)
	if step.Group != a.progress.Group || a.progress.Since.IsZero() && !step.Since.IsZero() {
		a.logGroup(ctx, step)
	}
	a.progress = step.Progress
	for _, o := range step.End {
		a.asked[o.UID] = now
		a.deps.Evict(podset.Evict{UID: o.UID, Stop: shutdown.Stop(now, o.Grace)})
	}
	if a.state == ending && step.Done {
		a.state, a.until = writing, now.Add(Patience)
	}
	if a.state != writing || len(a.left) > 0 {
		return
	}
	if a.deps.Unwritten == nil {
		a.becomeOver(ctx)
		return
	}
	self, number := ctx.Self(), a.number
	a.deps.Unwritten(func(n int) { self.Tell(unwritten{number, n}) })
}

// waits says whether there may be pods that are not known yet: an agent that starts in the middle of a shutdown
// waits for the list of the runtime, and a moment for its sources.
func (a *actor) waits(ctx *kernel.Context[Message], i *podset.Inventory) bool {
	if i.NotListed || i.AsksCollected || len(i.Loading) > 0 {
		return true
	}
	return len(i.Unseen) > 0 && ctx.Now().Before(a.since.Add(Patience))
}

func (a *actor) logGroup(ctx *kernel.Context[Message], s shutdown.Step) {
	if s.Done {
		return
	}
	ctx.Log().Info().Int32("priority", a.groups[s.Group].Priority).Dur("atMost", s.Left).Int("pods", len(s.End)).
		Msg("terminating the pods of the next priority for the shutdown")
}

// podsOf are the pods of this node as the decision has them.
func (a *actor) podsOf(i *podset.Inventory, now time.Time) (out []shutdown.Pod) {
	a.left = nil
	for j := range i.Pods {
		f := &i.Pods[j]
		if f.Origin == podspec.Orphan {
			continue // it is being stopped anyhow
		}
		p := shutdown.Pod{
			UID: f.Pod.UID, Priority: podspec.Priority(f.Pod), Grace: podspec.Grace(f.Pod), Ended: !f.Evictable(),
		}
		if s := f.Stop; shutdown.Is(s) {
			p.Asked = s.DecidedAt()
		} else if at, is := a.asked[p.UID]; is && (s != nil || now.Sub(at) < lostAfter) {
			p.Asked = at
		}
		if !p.Ended {
			a.left = append(a.left, name(f))
		}
		out = append(out, p)
	}
	return out
}

func (a *actor) unwritten(ctx *kernel.Context[Message], m unwritten) {
	if m.round == a.number && a.state == writing && m.pods == 0 {
		a.becomeOver(ctx)
	}
}

// shown is how many pods a log line names.
const shown = 10

func (a *actor) becomeOver(ctx *kernel.Context[Message]) {
	a.state = over
	if n := len(a.left); n > 0 {
		slices.Sort(a.left)
		ctx.Log().Warn().Int("pods", n).Strs("first", a.left[:min(n, shown)]).
			Msg("pods have not terminated within their shutdown grace periods; the machine goes down without waiting")
	}
	ctx.Log().Info().Msg("releasing the shutdown inhibitor lock: the machine goes down")
	a.release(ctx)
	a.noteEnd(ctx)
}
