package node

import "github.com/troupe-dev/troupe/actors/kernel"

// Around is called before (handled is false) and after an actor below the node handles a message.
// It may panic like the actor itself: before, the message is lost; after, the actor's state is.
type Around func(actor string, m any, handled bool)

// watched is a behavior with an Around.
type watched[M any] struct {
	inner kernel.Behavior[M]
	name  string
	call  Around
}

// Wrapped adds f to a behavior; it returns construct itself if f is nil.
func Wrapped[M any](f Around, name string, construct func() kernel.Behavior[M]) func() kernel.Behavior[M] {
	if f == nil {
		return construct
	}
	return func() kernel.Behavior[M] { return &watched[M]{construct(), name, f} }
}

// Start implements kernel.Behavior.
func (w *watched[M]) Start(ctx *kernel.Context[M]) { w.inner.Start(ctx) }

// Receive implements kernel.Behavior.
func (w *watched[M]) Receive(ctx *kernel.Context[M], m M) {
	w.call(w.name, m, false)
	w.inner.Receive(ctx, m)
	w.call(w.name, m, true)
}

// Stop implements kernel.Stopper.
func (w *watched[M]) Stop(ctx *kernel.Context[M]) {
	if s, ok := w.inner.(kernel.Stopper[M]); ok {
		s.Stop(ctx)
	}
}

// Overflowed implements kernel.OverflowHandler.
func (w *watched[M]) Overflowed(ctx *kernel.Context[M]) {
	if h, ok := w.inner.(kernel.OverflowHandler[M]); ok {
		h.Overflowed(ctx)
	}
}

// Resync implements kernel.Resyncer.
func (w *watched[M]) Resync(ctx *kernel.Context[M]) {
	if r, ok := w.inner.(kernel.Resyncer[M]); ok {
		r.Resync(ctx)
	}
}

// ChildStopped implements kernel.ChildWatcher.
func (w *watched[M]) ChildStopped(ctx *kernel.Context[M], name string) {
	if c, ok := w.inner.(kernel.ChildWatcher[M]); ok {
		c.ChildStopped(ctx, name)
	}
}

// Check implements kernel.Checked.
func (w *watched[M]) Check() error {
	if c, ok := w.inner.(kernel.Checked); ok {
		return c.Check()
	}
	return nil
}
