package actortest

import "github.com/troupe-dev/troupe/actors/kernel"

// Ordered is the reason of a crash that a test ordered.
const Ordered = "on order"

// Actor is the actor that a test is about. It crashes when the test says so.
type Actor[M any] struct {
	kernel.Ref[M]
	// crash is at which message from now the actor crashes, if above 0.
	crash int
}

// Spawn starts an actor. Its Runner is one without pools, if the spec has none.
func Spawn[M any](r *Rig, spec kernel.Spec[M]) *Actor[M] {
	r.T.Helper()
	if spec.Runner == nil {
		spec.Runner = r.Runner()
	}
	a, construct := &Actor[M]{}, spec.New
	spec.New = func() kernel.Behavior[M] { return &crasher[M]{construct(), a} }
	var err error
	a.Ref, err = kernel.SpawnRoot(r.System, spec)
	r.Must(err)
	return a
}

// Crash makes the actor panic at its next message.
func (a *Actor[M]) Crash() { a.crash = 1 }

// CrashAt makes the actor panic at the nth message from now, the next one being the first. With 0 it
// does not panic.
func (a *Actor[M]) CrashAt(n int) { a.crash = n }

// crasher is the behavior of an Actor. It passes on all that a behavior may implement.
type crasher[M any] struct {
	kernel.Behavior[M]
	actor *Actor[M]
}

// Receive implements kernel.Behavior.
func (c *crasher[M]) Receive(ctx *kernel.Context[M], m M) {
	if c.actor.crash > 0 {
		if c.actor.crash--; c.actor.crash == 0 {
			panic(Ordered)
		}
	}
	c.Behavior.Receive(ctx, m)
}

// Overflowed implements kernel.OverflowHandler.
func (c *crasher[M]) Overflowed(ctx *kernel.Context[M]) {
	if h, ok := c.Behavior.(kernel.OverflowHandler[M]); ok {
		h.Overflowed(ctx)
	}
}

// Resync implements kernel.Resyncer.
func (c *crasher[M]) Resync(ctx *kernel.Context[M]) {
	if r, ok := c.Behavior.(kernel.Resyncer[M]); ok {
		r.Resync(ctx)
	}
}

// ChildStopped implements kernel.ChildWatcher.
func (c *crasher[M]) ChildStopped(ctx *kernel.Context[M], name string) {
	if w, ok := c.Behavior.(kernel.ChildWatcher[M]); ok {
		w.ChildStopped(ctx, name)
	}
}

// Stop implements kernel.Stopper.
func (c *crasher[M]) Stop(ctx *kernel.Context[M]) {
	if s, ok := c.Behavior.(kernel.Stopper[M]); ok {
		s.Stop(ctx)
	}
}

// Check implements kernel.Checked.
func (c *crasher[M]) Check() error {
	if k, ok := c.Behavior.(kernel.Checked); ok {
		return k.Check()
	}
	return nil
}

// Play starts an actor that only calls hear with each message that it receives.
func Play[M any](r *Rig, name string, hear func(M)) kernel.Ref[M] {
	r.T.Helper()
	ref, err := kernel.SpawnRoot(r.System, kernel.Spec[M]{
		Name: name, New: func() kernel.Behavior[M] { return player[M](hear) },
	})
	r.Must(err)
	return ref
}

// player is the behavior of an actor that a test plays.
type player[M any] func(M)

// Start implements kernel.Behavior.
func (player[M]) Start(*kernel.Context[M]) {}

// Receive implements kernel.Behavior.
func (p player[M]) Receive(_ *kernel.Context[M], m M) { p(m) }
