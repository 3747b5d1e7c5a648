package images

import (
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
)

// ready gives a waiter its image, and tells people; it does not wait any more.
func (a *images) ready(ctx *kernel.Context[Message], i *image, w *waiter) {
	text := imagepull.PresentMessage(i.name, a.deps.Records != nil)
	if w.pulled && !w.since.IsZero() {
		text = i.pulledMessage(w)
	}
	a.event(ctx, w, false, "Pulled", text)
	delete(i.failures, w.pod.UID)
	w.reply.Tell(pod.ImageAnswer{
		Container: w.ask.Container, Info: i.info,
		Image: imagepull.Image{State: imagepull.Ready, Attempt: w.ask.Attempt, Image: w.ask.Image, Ahead: w.ask.Ahead,
			Ref: i.info.ID},
	})
	w.served = true
}

// tell tells a waiter what it waits for, unless it knows that. One that has asked again may have lost it.
func (a *images) tell(w *waiter, s imagepull.Image) {
	s.Attempt, s.Image, s.Ahead = w.ask.Attempt, w.ask.Image, w.ask.Ahead
	if w.told == s && !w.again {
		return
	}
	w.told, w.again = s, false
	w.reply.Tell(pod.ImageAnswer{Container: w.ask.Container, Image: s})
}

// event tells people of an image. Which containers can't be made without it, the pod's plan tells.
func (a *images) event(ctx *kernel.Context[Message], w *waiter, warning bool, reason, message string) {
	if w.ask.Ahead {
		return
	}
	container := w.ask.Container
	if _, is := imagepull.OfVolume(container); is {
		container = "" // the pod's
	}
	a.deps.Events.Record(port.Event{
		Pod: w.pod, Warning: warning, Reason: reason, Container: container, Message: message, At: ctx.Now(),
	})
}

func detail(err error) string {
	if e, ok := err.(*port.Error); ok && e.Detail != "" {
		return e.Detail
	}
	return err.Error()
}
