package kernel

// Ref is the address of an actor with messages of type M. The zero Ref drops them, which is for
// optional receivers.
//
// A Ref names a path in the tree, not an incarnation. It stays valid when the actor is restarted,
// and when it is stopped and another of the same protocol is spawned with the same path. While no
// actor has the path, messages become dead letters.
type Ref[M any] struct{ cell *cell }

// Tell sends m and returns at once.
func (r Ref[M]) Tell(m M) {
	if r.cell != nil {
		r.cell.send(envelope{msg: m})
	}
}

// Path is the path in the tree, empty for the zero Ref.
func (r Ref[M]) Path() string {
	if r.cell == nil {
		return ""
	}
	return r.cell.path
}

// IsZero reports whether it is the zero Ref.
func (r Ref[M]) IsZero() bool { return r.cell == nil }
