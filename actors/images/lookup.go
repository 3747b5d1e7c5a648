package images

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/credentials"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// lookupDeadline bounds how long it is waited for credentials: longer than a plugin may take, with one before it.
const lookupDeadline = 150 * time.Second

// offered says whether it is known what a container pulls with. If not, it is found out.
func (a *images) offered(ctx *kernel.Context[Message], i *image, w *imagepull.Waiter) bool {
	if i.NeedsLookup(w, a.env(ctx)) {
		a.lookUpFor(ctx, i, w)
	}
	return w.Lookup != imagepull.LookingUp
}

func (a *images) lookUpFor(ctx *kernel.Context[Message], i *image, w *imagepull.Waiter) {
	name := i.Name
	w.Begun(ctx.Now())
	of(w).looking = a.lookUp(ctx, name, podOf(w), func(id kernel.EffectID, f credentials.Found, err error) Message {
		return found{id, name, f, err}
	})
	a.lookers[of(w).looking] = w
}

// lookUp asks for the credentials of an image, for a pod or, if it is nil, for none in particular.
func (a *images) lookUp(
	ctx *kernel.Context[Message], name string, p *v1.Pod, answer func(kernel.EffectID, credentials.Found, error) Message,
) kernel.EffectID {
	a.lookups++
	e := kernel.Effect[Message]{
		Kind: "LookUpCredentials", Object: name,
		// One that was given up holds up no other.
		Lane:     fmt.Sprintf("credentials/%d/%d", ctx.Incarnation(), a.lookups),
		Deadline: lookupDeadline, Patience: time.Minute,
	}
	if p != nil {
		e.For = string(p.UID)
	}
	return portcall.Do(ctx, e, func(c context.Context, done func(credentials.Found, error)) {
		c.(interface{ AfterFunc(func()) func() bool }).AfterFunc(func() {
			if errors.Is(c.Err(), context.Canceled) {
				done(credentials.Found{}, c.Err()) // nobody answers it
			}
		})
		left := func() bool { return c.Err() != nil }
		a.deps.Lookup(name, p, left, func(f credentials.Found) { done(f, nil) })
	}, answer)
}

// lookUpAgain repeats the lookups that credentials has lost.
func (a *images) lookUpAgain(ctx *kernel.Context[Message]) {
	for _, name := range slices.Sorted(maps.Keys(a.of)) {
		for _, w := range a.of[name].Waiting {
			if w.Lookup == imagepull.LookingUp {
				ctx.Cancel(of(w).looking)
				delete(a.lookers, of(w).looking)
				w.Lost()
			}
		}
	}
	a.advanceAll(ctx)
}

// found goes on with the one for whom it was looked up. What the others need is as it was.
func (a *images) found(ctx *kernel.Context[Message], m found) {
	i, w := a.of[m.image], a.lookers[m.id]
	if i == nil || w == nil {
		return // it does not wait any more
	}
	delete(a.lookers, m.id)
	i.Part(w)
	if m.err != nil {
		m.found.Failures = []string{fmt.Sprintf("credentials could not be looked up: %v", m.err)}
	}
	w.Gave(imagepull.Found(m.found))
	if w == a.lowest {
		a.lowestFound(ctx, i)
		a.advance(ctx, i)
		a.drop(ctx, i)
		return
	}
	a.advanceThose(ctx, i, []*imagepull.Waiter{w})
	if w.State == imagepull.Served {
		a.drop(ctx, i)
	}
}
