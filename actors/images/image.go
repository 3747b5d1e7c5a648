package images

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
)

// image is an image with its effects.
type image struct {
	*imagepull.Image
	// looking is the effect of the newest look, call that of the stage. Results of others are late.
	looking, call kernel.EffectID
	// turnOf are the pods among whose turns it is, pullsOf the pod that the pull under way is for.
	turnOf  []types.UID
	pullsOf types.UID
	// timer wakes it the first time at which a waiter needs something.
	timer kernel.Soonest[Message]
}

// asker is whom a waiter's answers go to.
type asker struct {
	reply kernel.Ref[pod.Message]
	// prepull is instead of reply for the request of prepull, and gaveWay why that was given up.
	prepull func(imagecache.End)
	gaveWay imagecache.Outcome
	// again: it has asked since it was told something.
	again bool
	// looking is the effect of its newest lookup.
	looking kernel.EffectID
}

func of(w *imagepull.Waiter) *asker { return w.Asker.(*asker) }

func (a *images) get(name string) *image {
	i := a.of[name]
	if i == nil {
		i = &image{Image: imagepull.New(name)}
		a.of[name] = i
	}
	return i
}

// drop forgets an image that no pod waits for.
func (a *images) drop(ctx *kernel.Context[Message], i *image) {
	a.leaveTurn(ctx, i)
	over, again := i.Over(a.env(ctx))
	switch {
	case over:
		i.timer.Stop()
		delete(a.of, i.Name)
	case !again.IsZero():
		i.wake(ctx, again)
	}
}

// leave drops those who do not wait for an image any more, and gives up what is looked up for them.
func (a *images) leave(ctx *kernel.Context[Message], i *image, which func(*imagepull.Waiter) bool) {
	for _, w := range i.Leave(which) {
		if w.Lookup == imagepull.LookingUp {
			ctx.Cancel(of(w).looking)
			delete(a.lookers, of(w).looking)
		}
	}
}

// release drops waiters of an image.
func (a *images) release(ctx *kernel.Context[Message], name string, which func(*imagepull.Waiter) bool) {
	if i := a.of[name]; i != nil && slices.ContainsFunc(i.Waiting, which) {
		a.leave(ctx, i, which)
		a.abandon(ctx, i)
		a.drop(ctx, i)
	}
}

// wake sets the one timer of an image, whatever it was set for.
func (i *image) wake(ctx *kernel.Context[Message], at time.Time) {
	i.timer.Stop()
	i.timer.SetAt(ctx, at, retry{i.Name})
}

func (a *images) env(ctx *kernel.Context[Message]) *imagepull.Env {
	return &imagepull.Env{
		Now: ctx.Now(), Backoff: a.deps.Backoff, FreshFor: a.deps.FreshFor, LookEvery: a.deps.LookEvery,
		Plugins: a.deps.Lookup != nil,
	}
}
