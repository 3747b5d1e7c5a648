package images

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// pull begins to pull for waiters.
func (a *images) pull(ctx *kernel.Context[Message], i *image, waiters []*imagepull.Waiter) {
	i.Begin(waiters, a.deps.Records != nil, a.env(ctx))
	for _, w := range waiters {
		a.tellPulling(ctx, i, w)
	}
	if a.deps.Records != nil {
		a.intend(ctx, i)
		return
	}
	a.try(ctx, i, podOf(waiters[0]))
}

// try begins a pull with the next credential. Which pod it is for the runtime may want to know; nil for none.
func (a *images) try(ctx *kernel.Context[Message], i *image, p *v1.Pod) {
	name, with := i.Name, i.Try()
	a.asksFor(name)
	var auth *port.ImageAuth
	if with != (imagepull.Credential{}) {
		auth = &port.ImageAuth{Username: with.Username, Password: with.Password}
	}
	kind, pool := pullKind, PullPool
	if a.lowest != nil && a.lowest.Ask.Image == name {
		kind, pool = pullAheadKind, AheadPool
	}
	i.call = portcall.Do(ctx, kernel.Effect[Message]{
		Kind: kind, Object: name, Lane: "pull/" + name, Pool: pool, Rank: a.pullsFor(i, p), Tag: name,
		Deadline: a.deps.PullDeadline, Patience: time.Minute,
	}, func(c context.Context, done func(pulled, error)) {
		m := pulled{image: name, began: kernel.Now(c)}
		a.deps.Runtime.PullImage(c, port.PullImage{Image: name, Pod: p, Auth: auth}, func(ref string, err error) {
			m.ref = ref
			done(m, err)
		})
	}, func(id kernel.EffectID, m pulled, err error) Message {
		m.id, m.image, m.err = id, name, err
		return m
	})
}

// cancelPull gives up the call of the runtime under way for an image. If it waited for a slot, it is over; else the
// runtime answers it.
func (a *images) cancelPull(ctx *kernel.Context[Message], i *image) {
	if !ctx.Cancel(i.call) {
		i.GiveUp()
		return
	}
	i.End()
	a.pullsFor(i, nil)
	a.notPulled(ctx, i.Name, nil) // the runtime was not asked
}

// abandon gives up a pull that no pod waits for any more, as a kubelet does when a pod is deleted or evicted. It would
// hold its slot, and fill the disk, for nobody. One that does not run yet is seen not to be needed before it begins.
func (a *images) abandon(ctx *kernel.Context[Message], i *image) {
	if len(i.Waiting) == 0 && (i.Stage == imagepull.Pulling || i.Stage == imagepull.Inherited) {
		a.cancelPull(ctx, i)
	}
}

func (a *images) pulled(ctx *kernel.Context[Message], m pulled) {
	i := a.of[m.image]
	mine := i != nil && i.Stage.Calls() && i.call == m.id
	if !mine && m.err == nil {
		a.record(ctx, m.ref, m.image, nil, a.idle(m.image)) // it was given up, and has worked after all
	}
	if m.err != nil && a.idle(m.image) {
		a.settle(ctx, m.image) // it was given up, and may have brought the image before it failed
	}
	switch {
	case i == nil:
		return
	case !mine:
		i.Outdate()
		a.advance(ctx, i)
		return
	}
	a.pullsFor(i, nil)
	i.Look = imagepull.NotLooking // what is being looked at is from before
	a.lowestPulled(ctx, i, &m)
	switch {
	case m.err == nil:
		a.record(ctx, m.ref, i.Name, i.Worked(m.began, ctx.Now()), true)
		a.advance(ctx, i)
		a.drop(ctx, i)
	case i.GivenUp(): // who waits now came later
		i.End()
		a.notPulled(ctx, i.Name, m.err)
		a.advance(ctx, i)
		a.drop(ctx, i)
	default:
		down := port.KindOf(m.err) == port.Unavailable
		if i.Failed(imagepull.Failure{Text: port.Detail(m.err), MayGoOn: mayStillComplete(m.err), Down: down}) {
			a.try(ctx, i, podOf(i.Waiting[0]))
			return
		}
		a.notPulled(ctx, i.Name, m.err)
		a.failed(ctx, i, i.Concerned(a.env(ctx)), down, i.Why())
	}
}
