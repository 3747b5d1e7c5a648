package images

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/pullahead"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// prepull begins with what the image can be pulled with: what each pod of the node has.
func (a *images) prepull(ctx *kernel.Context[Message], m Prepull) {
	if w := a.lowest; w != nil {
		if i := a.of[w.ask.Image]; i.pulling == 0 {
			a.endLowest(ctx, i, pullahead.End{Outcome: pullahead.GaveWay})
		}
	}
	if a.busy() || !a.bucket.Full(ctx.Now()) {
		m.Reply(pullahead.End{Outcome: pullahead.GaveWay})
		return
	}
	i := a.get(m.Image)
	a.lowest = &waiter{
		pod: nobody, ask: imagepull.Request{Image: m.Image, Policy: v1.PullAlways, Ahead: true}, prepull: m.Reply,
		secrets: &imagepull.Fit{Known: true},
	}
	i.waiting = append(i.waiting, a.lowest)
	a.advance(ctx, i)
}

// nobody stands for the pod of a pull that no pod wants.
var nobody = &v1.Pod{}

// forPod is the pod that a waiter pulls for, nil for none.
func (w *waiter) forPod() *v1.Pod {
	if w.prepull != nil {
		return nil
	}
	return w.pod
}

// busy says whether a pod waits for an image, or one is being pulled.
func (a *images) busy() bool {
	for _, i := range a.of { // order-free: is there any
		if i.pulling != 0 || i.wantedByPod() {
			return true
		}
	}
	return false
}

func (i *image) wantedByPod() bool {
	return slices.ContainsFunc(i.waiting, func(w *waiter) bool { return w.prepull == nil })
}

// lowestFound takes of the credentials for prepull those of the node. A pod may have asked for an image in between.
func (a *images) lowestFound(ctx *kernel.Context[Message], i *image) {
	a.lowest.found.Offers = slices.DeleteFunc(slices.Clone(a.lowest.found.Offers), func(o imagepull.Offer) bool {
		return o.Source.Owner != imagepull.Node
	})
	if a.busy() || !a.bucket.Full(ctx.Now()) {
		a.endLowest(ctx, i, pullahead.End{Outcome: pullahead.GaveWay})
	}
}

// endLowest answers prepull.
func (a *images) endLowest(ctx *kernel.Context[Message], i *image, end pullahead.End) {
	w := a.lowest
	a.lowest = nil
	a.leave(ctx, i, func(other *waiter) bool { return other == w })
	w.prepull(end)
}

// giveWay ends the request of prepull for a pod that needs a pull of i, unless that is its image, and is being pulled
// already, or another pod waits for that pull.
func (a *images) giveWay(ctx *kernel.Context[Message], i *image) {
	w := a.lowest
	if w == nil {
		return
	}
	of := a.of[w.ask.Image]
	if of == i && a.underway(ctx, i) || of != i && of.wantedByPod() {
		return
	}
	a.giveUp(ctx, of, pullahead.GaveWay)
}

// underway says whether the runtime was asked for the pull of an image for prepull.
func (a *images) underway(ctx *kernel.Context[Message], i *image) bool {
	return slices.ContainsFunc(ctx.InFlight(), func(e kernel.EffectInfo) bool {
		return e.ID == i.pulling && e.Kind == pullAheadKind && e.Phase == kernel.EffectStarted
	})
}

func (a *images) stopPrepull(ctx *kernel.Context[Message], name string) {
	if i := a.of[name]; a.lowest != nil && a.lowest.ask.Image == name && !i.wantedByPod() {
		a.giveUp(ctx, i, pullahead.Stopped)
	}
}

// giveUp ends the request of prepull. A call of the runtime ends first: it may bring the image all the same.
func (a *images) giveUp(ctx *kernel.Context[Message], i *image, why pullahead.Outcome) {
	if i.abandoned {
		return
	}
	_, dropped := a.cancelPull(ctx, i)
	if i.pulling != 0 {
		i.abandoned, a.lowest.gaveWay = true, why
		return
	}
	if dropped {
		i.next = nil
		a.notPulled(ctx, i.name, nil)
	}
	a.endLowest(ctx, i, pullahead.End{Outcome: why})
	a.drop(ctx, i)
}

// lowestPulled answers prepull when a pull has ended, unless it goes on with another credential.
func (a *images) lowestPulled(ctx *kernel.Context[Message], i *image, m *pulled) {
	end := pullahead.End{ID: m.ref, Took: ctx.Now().Sub(i.begun)}
	switch {
	case a.lowest == nil || a.lowest.ask.Image != i.name:
		return
	case m.err == nil:
	case i.abandoned:
		end.Outcome = a.lowest.gaveWay
	case i.wantedByPod(): // it is theirs now
		end = failedEnd(m.err, detail(m.err))
	case len(i.next) > 0 && !mayGoOn(m.err):
		return
	default:
		texts := append([]string{detail(m.err)}, a.lowest.found.Failures...)
		end = failedEnd(m.err, strings.Join(texts, "; "))
	}
	a.endLowest(ctx, i, end)
}

func failedEnd(err error, why string) pullahead.End {
	return pullahead.End{Outcome: pullahead.Failed, Why: why, Down: port.KindOf(err) == port.Unavailable}
}
