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
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// lookupDeadline bounds how long it is waited for credentials: longer than a plugin may take, with one before it.
const lookupDeadline = 150 * time.Second

// lookup is what a container pulls with apart from pull secrets. It is looked up for each pull: what a plugin answers
// counts for a while only.
//
//	(none) ──needs a pull──► looking ──found, or no answer──► known ──the backoff of its failure is over──► looking
//	   ▲                        │
//	   └──credentials restarted─┘
type lookup struct {
	// looking is the effect under way, 0 for none; lookedAt is when the last began, zero for never.
	looking  kernel.EffectID
	lookedAt time.Time
	found    credentials.Found
}

// offered says whether it is known what a container pulls with. If not, it is found out.
func (a *images) offered(ctx *kernel.Context[Message], i *image, w *waiter) bool {
	if a.deps.Lookup == nil {
		return true
	}
	if w.looking != 0 {
		return false
	}
	// The same that has failed fails again until its backoff is over; what it is then may be new.
	f := i.failures[w.pod.UID]
	old := f.Count > 0 && !w.lookedAt.After(f.At) && i.pulling == 0 && !ctx.Now().Before(f.RetryAt(a.deps.Backoff))
	if !w.lookedAt.IsZero() && !old {
		return true
	}
	name := i.name
	w.lookedAt = ctx.Now()
	w.looking = a.lookUp(ctx, name, w.forPod(), func(id kernel.EffectID, f credentials.Found, err error) Message {
		return found{id, name, f, err}
	})
	return false
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

// leave drops those who do not wait for an image any more, and gives up what is looked up for them.
func (a *images) leave(ctx *kernel.Context[Message], i *image, which func(*waiter) bool) {
	i.waiting = slices.DeleteFunc(i.waiting, func(w *waiter) bool {
		if !which(w) {
			return false
		}
		i.parts(w)
		if w.looking != 0 {
			ctx.Cancel(w.looking)
		}
		return true
	})
}

// lookUpAgain repeats the lookups that credentials has lost.
func (a *images) lookUpAgain(ctx *kernel.Context[Message]) {
	for _, name := range slices.Sorted(maps.Keys(a.of)) {
		for _, w := range a.of[name].waiting {
			if w.looking != 0 {
				ctx.Cancel(w.looking)
				w.looking, w.lookedAt = 0, time.Time{}
			}
		}
	}
	a.advanceAll(ctx)
}

func (a *images) found(ctx *kernel.Context[Message], m found) {
	i := a.of[m.image]
	if i == nil {
		return
	}
	n := slices.IndexFunc(i.waiting, func(w *waiter) bool { return w.looking == m.id })
	if n < 0 {
		return // it does not wait any more
	}
	w := i.waiting[n]
	i.parts(w)
	w.looking, w.found, w.refusedBy = 0, m.found, nil
	if m.err != nil {
		w.found.Failures = []string{fmt.Sprintf("credentials could not be looked up: %v", m.err)}
	}
	if w == a.lowest {
		a.lowestFound(ctx, i)
	}
	a.advance(ctx, i)
	a.drop(ctx, i)
}
