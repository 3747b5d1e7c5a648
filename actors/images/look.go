package images

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// look asks the runtime whether it has an image.
func (a *images) look(ctx *kernel.Context[Message], i *image) {
	name := i.Name
	i.Look = imagepull.Looking
	e := kernel.Effect[Message]{Kind: "ImageStatus", Object: name, Lane: "status/" + name, Deadline: a.deps.CheckDeadline}
	i.looking = portcall.Do(ctx, e, func(c context.Context, done func(checked, error)) {
		a.deps.Runtime.ImageStatus(c, name, func(info observed.Image, ok bool, err error) {
			done(checked{info: &info, ok: ok}, err)
		})
	}, func(id kernel.EffectID, m checked, err error) Message {
		m.id, m.image, m.err = id, name, err
		return m
	})
}

func (a *images) checked(ctx *kernel.Context[Message], m checked) {
	i := a.of[m.image]
	if i == nil || i.Look != imagepull.Looking || i.looking != m.id {
		return // late: it was asked for again, or nobody wants to know
	}
	i.Look = imagepull.NotLooking
	if m.err != nil {
		a.unknown(ctx, i, fmt.Sprintf("Failed to inspect image %q: %s", i.Name, port.Detail(m.err)))
		return
	}
	if lost := i.See(m.info, m.ok, ctx.Now()); len(lost) > 0 {
		const text = "the image was pulled, but the runtime does not have it"
		a.failed(ctx, i, lost, false, func(*imagepull.Waiter) string { return text })
		return
	}
	a.advance(ctx, i)
	a.drop(ctx, i)
}

// unknown is what becomes of those who wait for a look that failed: it says
// nothing of the image, and is not held against it for long.
func (a *images) unknown(ctx *kernel.Context[Message], i *image, message string) {
	for _, w := range i.NotSeen(message, a.env(ctx)) {
		a.event(ctx, w, true, "InspectFailed", message)
		a.tell(w, imagepull.Status{State: imagepull.Failed, Reason: imagepull.ImageInspectError, Message: message})
	}
	a.passTurn(ctx, i, nil)
	a.advance(ctx, i)
	a.drop(ctx, i)
}
