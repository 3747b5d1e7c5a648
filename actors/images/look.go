package images

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// lookSoon looks for an image, unless it is being looked for, or its last look has just failed. It gives when to come
// back.
func (a *images) lookSoon(ctx *kernel.Context[Message], i *image, next time.Time) time.Time {
	if i.checking != 0 {
		return next
	}
	if at := i.looks.RetryAt(imagepull.LookBackoff()); ctx.Now().Before(at) {
		return sooner(next, at)
	}
	a.look(ctx, i)
	return next
}

// look asks the runtime whether it has an image.
func (a *images) look(ctx *kernel.Context[Message], i *image) {
	name := i.name
	e := kernel.Effect[Message]{Kind: "ImageStatus", Object: name, Lane: "status/" + name, Deadline: a.deps.CheckDeadline}
	i.checking = portcall.Do(ctx, e, func(c context.Context, done func(checked, error)) {
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
	if i == nil || i.checking != m.id {
		return // late: it was asked for again, or nobody wants to know
	}
	i.checking = 0
	if m.err != nil {
		a.unknown(ctx, i, fmt.Sprintf("Failed to inspect image %q: %s", i.name, detail(m.err)))
		return
	}
	i.looks = imagepull.Failures{}
	i.checkedAt, i.present, i.info = ctx.Now(), m.ok, m.info
	if !m.ok && slices.ContainsFunc(i.waiting, func(w *waiter) bool { return w.pulled }) {
		// Again at once would be again and again.
		var concerned []*waiter
		for _, w := range i.waiting {
			if w.pulled {
				concerned = append(concerned, w)
			}
			w.pulled = false
		}
		const text = "the image was pulled, but the runtime does not have it"
		a.failed(ctx, i, concerned, false, func(*waiter) string { return text })
		return
	}
	a.advance(ctx, i)
	a.drop(ctx, i)
}

// unknown is what becomes of those who wait for a look that failed: it says
// nothing of the image, and is not held against it for long.
func (a *images) unknown(ctx *kernel.Context[Message], i *image, message string) {
	now := ctx.Now()
	i.looks = i.looks.Failed(imagepull.ImageInspectError, message, now)
	for _, w := range i.waiting {
		if w.ask.Policy != v1.PullAlways && !a.fresh(i, now) {
			a.event(ctx, w, true, "InspectFailed", message)
			a.tell(w, imagepull.Image{State: imagepull.Failed, Reason: imagepull.ImageInspectError, Message: message})
		}
	}
	a.passTurn(ctx, i, nil)
	a.advance(ctx, i)
	a.drop(ctx, i)
}
