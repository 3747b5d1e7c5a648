package images

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// prepull begins with what the image can be pulled with: what each pod of the node has.
func (a *images) prepull(ctx *kernel.Context[Message], m Prepull) {
	if w := a.lowest; w != nil {
		if i := a.of[w.Ask.Image]; !i.Stage.Under() {
			a.endLowest(ctx, i, imagecache.End{Outcome: imagecache.GaveWay})
			a.drop(ctx, i)
		}
	}
	if a.busy() || !a.bucket.Full(ctx.Now()) {
		m.Reply(imagecache.End{Outcome: imagecache.GaveWay})
		return
	}
	i := a.get(m.Image)
	a.lowest = &imagepull.Waiter{
		Lowest: true, Pod: nobody, Ask: imagepull.Request{Image: m.Image, Policy: v1.PullAlways, Ahead: true},
		Secrets: &imagepull.Fit{Known: true}, Asker: &asker{prepull: m.Reply},
	}
	i.Waiting = append(i.Waiting, a.lowest)
	a.advance(ctx, i)
}

// nobody stands for the pod of a pull that no pod wants.
var nobody = &v1.Pod{}

// busy says whether a pod waits for an image, or one is being pulled.
func (a *images) busy() bool {
	for _, i := range a.of { // order-free: is there any
		if i.Stage.Under() || i.Shared() {
			return true
		}
	}
	return false
}

// lowestFound takes of the credentials for prepull those of the node. A pod may have asked for an image in between.
func (a *images) lowestFound(ctx *kernel.Context[Message], i *image) {
	a.lowest.Found.Offers = slices.DeleteFunc(slices.Clone(a.lowest.Found.Offers), func(o imagepull.Offer) bool {
		return o.Source.Owner != imagepull.Node
	})
	if a.busy() || !a.bucket.Full(ctx.Now()) {
		a.endLowest(ctx, i, imagecache.End{Outcome: imagecache.GaveWay})
	}
}

// endLowest answers prepull.
func (a *images) endLowest(ctx *kernel.Context[Message], i *image, end imagecache.End) {
	w := a.lowest
	a.lowest = nil
	a.leave(ctx, i, func(other *imagepull.Waiter) bool { return other == w })
	of(w).prepull(end)
}

// giveWay ends the request of prepull for a pod that needs a pull of i, unless that is its image, and is being pulled
// already, or another pod waits for that pull.
func (a *images) giveWay(ctx *kernel.Context[Message], i *image) {
	w := a.lowest
	if w == nil {
		return
	}
	its := a.of[w.Ask.Image]
	if its == i && a.underway(ctx, i) || its != i && its.Shared() {
		return
	}
	a.giveUp(ctx, its, imagecache.GaveWay)
}

// underway says whether the runtime was asked for the pull of an image for prepull.
func (a *images) underway(ctx *kernel.Context[Message], i *image) bool {
	return slices.ContainsFunc(ctx.InFlight(), func(e kernel.EffectInfo) bool {
		return i.Stage.Under() && e.ID == i.call && e.Kind == pullAheadKind && e.Phase == kernel.EffectStarted
	})
}

func (a *images) stopPrepull(ctx *kernel.Context[Message], name string) {
	if i := a.of[name]; a.lowest != nil && a.lowest.Ask.Image == name && !i.Shared() {
		a.giveUp(ctx, i, imagecache.Stopped)
	}
}

// giveUp ends the request of prepull. A call of the runtime ends first: it may bring the image all the same.
func (a *images) giveUp(ctx *kernel.Context[Message], i *image, why imagecache.Outcome) {
	of(a.lowest).gaveWay = why
	switch {
	case i.GivenUp():
	case i.Stage == imagepull.Pulling:
		a.cancelPull(ctx, i)
	case i.Stage.Under():
		i.GiveUp()
	}
	if !i.Stage.Under() {
		a.endLowest(ctx, i, imagecache.End{Outcome: why})
		a.drop(ctx, i)
	}
}

// lowestPulled answers prepull when a pull has ended, unless it goes on with another credential.
func (a *images) lowestPulled(ctx *kernel.Context[Message], i *image, m *pulled) {
	end := imagecache.End{ID: m.ref, Took: ctx.Now().Sub(i.Begun)}
	switch {
	case a.lowest == nil || a.lowest.Ask.Image != i.Name:
		return
	case m.err == nil:
	case i.GivenUp():
		end.Outcome = of(a.lowest).gaveWay
	case i.Shared(): // it is theirs now
		end = failedEnd(m.err, port.Detail(m.err))
	case i.HasNext() && !mayStillComplete(m.err):
		return
	default:
		texts := append([]string{port.Detail(m.err)}, a.lowest.Found.Failures...)
		end = failedEnd(m.err, strings.Join(texts, "; "))
	}
	a.endLowest(ctx, i, end)
}

func failedEnd(err error, why string) imagecache.End {
	return imagecache.End{Outcome: imagecache.Failed, Why: why, Down: port.KindOf(err) == port.Unavailable}
}
