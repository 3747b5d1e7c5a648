package kernel

// Ref is where to send messages of type M. The zero Ref drops them, which is
// for optional receivers.
//
// A Ref names a place in the tree, not an incarnation: it stays good when the
// actor is restarted, and when it is stopped and another of the same protocol
// is spawned in its place. While no actor has the path, messages are dead letters.
type Ref[M any] struct{ cell *cell }

// Tell sends m and returns at once.
func (r Ref[M]) Tell(m M) {
	if r.cell != nil {
		r.cell.deliver(envelope{msg: m})
	}
}

// Path is the place in the tree, empty for the zero Ref.
func (r Ref[M]) Path() string {
	if r.cell == nil {
		return ""
	}
	return r.cell.path
}

// IsZero reports whether it refers to no actor.
func (r Ref[M]) IsZero() bool { return r.cell == nil }
