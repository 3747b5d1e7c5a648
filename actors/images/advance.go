package images

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
)

// advance does for one image what its waiters need now.
func (a *images) advance(ctx *kernel.Context[Message], i *image) { a.advanceThose(ctx, i, i.Waiting) }

// advanceThose is advance for some of the waiters.
func (a *images) advanceThose(ctx *kernel.Context[Message], i *image, those []*imagepull.Waiter) {
	if i.Sight == imagepull.Present && a.collector.removing[i.Info.ID] != 0 {
		return // it is looked for again when the removal has ended
	}
	e, some := a.env(ctx), len(those) < len(i.Waiting)
	p := i.Next(those, a.verify(ctx, i, those), e)
	for _, w := range p.LookUp {
		a.lookUpFor(ctx, i, w)
	}
	for _, w := range p.Ready {
		a.ready(ctx, i, w)
	}
	for _, w := range p.Never {
		text := imagepull.NeverPresentMessage(i.Name)
		if w.Told.Reason != imagepull.ErrImageNeverPull {
			a.event(ctx, w, true, imagepull.ErrImageNeverPull, text)
		}
		a.tell(w, imagepull.Status{State: imagepull.Failed, Reason: imagepull.ErrImageNeverPull, Message: text})
	}
	if len(p.Ready) > 0 {
		a.leave(ctx, i, func(w *imagepull.Waiter) bool { return w.State == imagepull.Served })
	}
	if p.Look {
		a.look(ctx, i)
	}
	lowest := slices.Contains(p.Pull, a.lowest)
	if others := len(p.Pull) + len(p.HeldUp); others > 1 || others == 1 && !lowest {
		a.giveWay(ctx, i)
		if lowest && a.lowest == nil {
			p.Pull = slices.DeleteFunc(p.Pull, func(w *imagepull.Waiter) bool { return w.Lowest })
		}
	}
	if len(p.HeldUp) > 0 {
		p.Sooner(a.backOff(ctx, i, p.HeldUp))
	}
	if a.pullFor(ctx, i, &p, some) {
		return
	}
	switch {
	case p.Again.IsZero():
	case some: // others may need it sooner
		i.timer.SetAt(ctx, p.Again, retry{i.Name})
	default:
		i.wake(ctx, p.Again)
	}
}

// pullFor begins a pull if it is the turn of the image, or tells those who need one that it is under way. It says
// whether all waiters were advanced instead: a pull is for all.
func (a *images) pullFor(ctx *kernel.Context[Message], i *image, p *imagepull.Plan, some bool) (advanced bool) {
	switch {
	case len(p.Pull) == 0:
	case i.Stage.Under():
		for _, w := range p.Pull {
			a.tellPulling(ctx, i, w)
		}
	case ctx.Now().Before(i.TurnAt):
		p.Sooner(i.TurnAt)
	case !a.mayTurn(i, p.Pull):
	case some:
		a.advance(ctx, i)
		return true
	case a.turn(ctx, i, p.Pull):
		a.pull(ctx, i, p.Pull)
		a.passTurn(ctx, i, nil)
	default:
		p.Sooner(i.TurnAt)
	}
	return false
}

func (a *images) advanceAll(ctx *kernel.Context[Message]) {
	a.advanceEach(ctx, func(*image) {})
}

// advanceEach does for each image what its waiters need now, after a change. That may end the request of prepull for
// another image, which is forgotten then.
func (a *images) advanceEach(ctx *kernel.Context[Message], change func(*image)) {
	for _, name := range slices.Sorted(maps.Keys(a.of)) {
		if i := a.of[name]; i != nil {
			change(i)
			a.advance(ctx, i)
			a.drop(ctx, i)
		}
	}
}

// failed begins the backoffs of those for whom a pull failed.
func (a *images) failed(
	ctx *kernel.Context[Message], i *image, concerned []*imagepull.Waiter, down bool,
	why func(*imagepull.Waiter) string,
) {
	for _, w := range concerned {
		text := why(w)
		reason := i.Fail(w, text, down, a.env(ctx))
		a.event(ctx, w, true, "Failed", fmt.Sprintf("Failed to pull image %q: %s", i.Name, text))
		if reason == imagepull.ErrImagePull {
			a.warnOfSecrets(ctx, w)
		}
	}
	a.backOff(ctx, i, concerned)
	a.advance(ctx, i)
	a.drop(ctx, i)
}

// backOff tells waiters why they wait for a pull, and gives when that changes.
func (a *images) backOff(ctx *kernel.Context[Message], i *image, held []*imagepull.Waiter) time.Time {
	var p imagepull.Plan
	for _, w := range held {
		reason, message, until := i.Status(w, a.env(ctx))
		p.Sooner(until)
		if reason == imagepull.ImagePullBackOff && w.Told.Reason != reason {
			a.event(ctx, w, false, "BackOff", imagepull.BackOffMessage(i.Name))
		}
		a.tell(w, imagepull.Status{State: imagepull.Failed, Reason: reason, Message: message})
	}
	return p.Again
}

// ready gives a waiter its image, and tells people; it does not wait any more.
func (a *images) ready(ctx *kernel.Context[Message], i *image, w *imagepull.Waiter) {
	a.event(ctx, w, false, "Pulled", i.Serve(w, a.deps.Records != nil))
	of(w).reply.Tell(pod.ImageAnswer{
		Container: w.Ask.Container, Info: i.Info,
		Image: imagepull.Status{State: imagepull.Ready, Attempt: w.Ask.Attempt, Image: w.Ask.Image, Ahead: w.Ask.Ahead,
			Ref: i.Info.ID},
	})
}

// tell tells a waiter what it waits for, unless it knows that. One that has asked again may have lost it.
func (a *images) tell(w *imagepull.Waiter, s imagepull.Status) {
	s.Attempt, s.Image, s.Ahead = w.Ask.Attempt, w.Ask.Image, w.Ask.Ahead
	if w.Told == s && !of(w).again {
		return
	}
	w.Told, of(w).again = s, false
	of(w).reply.Tell(pod.ImageAnswer{Container: w.Ask.Container, Image: s})
}

// tellPulling tells people that a container waits for a pull, once.
func (a *images) tellPulling(ctx *kernel.Context[Message], i *image, w *imagepull.Waiter) {
	if i.Tells(w, ctx.Now()) {
		a.event(ctx, w, false, "Pulling", fmt.Sprintf("Pulling image %q", i.Name))
	}
}

// event tells people of an image. Which containers can't be made without it, the pod's plan tells.
func (a *images) event(ctx *kernel.Context[Message], w *imagepull.Waiter, warning bool, reason, message string) {
	if w.Ask.Ahead {
		return
	}
	container := w.Ask.Container
	if _, is := imagepull.OfVolume(container); is {
		container = "" // the pod's
	}
	a.deps.Events.Record(port.Event{
		Pod: w.Pod, Warning: warning, Reason: reason, Container: container, Message: message, At: ctx.Now(),
	})
}

// warnOfSecrets tells people of secrets that are not there, or hold nothing, when a pull has failed: the image may have
// needed none.
func (a *images) warnOfSecrets(ctx *kernel.Context[Message], w *imagepull.Waiter) {
	if names := w.Secrets.Unusable(); len(names) > 0 {
		a.deps.Events.Record(port.Event{
			Pod: w.Pod, Warning: true, Reason: "FailedToRetrieveImagePullSecret", At: ctx.Now(),
			Message: fmt.Sprintf("Unable to retrieve some image pull secrets (%s); "+
				"attempting to pull the image may not succeed.", strings.Join(names, ", ")),
		})
	}
}

// podOf is the pod that a waiter pulls for, nil for none.
func podOf(w *imagepull.Waiter) *v1.Pod {
	if w.Lowest {
		return nil
	}
	return w.Pod
}
