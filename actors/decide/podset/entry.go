package podset

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Entry is one pod of this node.
type Entry struct {
	Pod    *v1.Pod
	Origin podspec.Origin
	State  State
	// Stops are why and how it is stopped.
	Stops
	// Deleted is when the node first knew that the apiserver deletes the pod.
	Deleted time.Time
	// Wanted is the last round in which a source wanted the pod. DesiredAgain is the desired pod, if that was
	// after Removal began.
	Wanted       uint64
	DesiredAgain *Want
	// Down: nothing of it runs any more, and its claims are released. It may still have mounts.
	Down bool
	// GivenUp: others need not wait for its end, because the runtime fails to stop it, or a driver to release its claims.
	GivenUp bool
	// Alone: it ended before anything asked it to stop.
	Alone bool
	// HasPreviousLife: its containers in the runtime may be from an earlier life.
	HasPreviousLife bool
}

// Check says which invariant does not hold.
func (e *Entry) Check() error { return e.check(e.Pod.UID) }

// Removal is the progress of the stop of a pod that no source wants, or that is evicted.
//
//	Kept ──no source wants it, Evict──► Unsaved ──written──► Saved
//
// Unsaved: its actor is not told of it until the stop is in the checkpoint, or cannot be written. If the apiserver
// deletes the pod too, its actor is told that at once.
type Removal uint8

const (
	Kept Removal = iota
	Unsaved
	Saved
)

func (r Removal) String() string {
	switch r {
	case Kept:
		return "Kept"
	case Unsaved:
		return "Unsaved"
	case Saved:
		return "Saved"
	default:
		return fmt.Sprintf("Removal(%d)", uint8(r))
	}
}

// NotWanted is the reason for stopping a pod that no source wants.
const NotWanted = "the pod was removed from its source"

// name identifies pods of which only one may run at a time.
type name struct{ namespace, name string }

func nameOf(p *v1.Pod) name { return name{p.Namespace, p.Name} }
