package podset

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Entry is one pod of this node.
type Entry struct {
	Pod    *v1.Pod
	Origin podspec.Origin
	State  State
	// Stop is how it is stopped, nil as long as it is not.
	Stop *podlife.Stop
	// Removal says whether Stop is because no source wants it. Invariant: if it is not Kept, Stop is set.
	Removal Removal
	// Deleted is when the node first knew that the apiserver deletes it.
	Deleted time.Time
	// Wanted is the last round in which a source wanted it. Again is how, if that was after its Removal
	// began.
	Wanted uint64
	Again  *Want
	// Earlier: what the runtime has of it may be of an earlier life.
	Earlier bool
	// Unasked: it ran already when this node's object was not known, and is asked for admission later.
	Unasked bool
}

// Removal is how far the stop of a pod that no source wants has come.
//
//	Kept ──no source wants it──► Noting ──written──► Told
//
// Noting: its actor is not told to stop until the checkpoint has it, or cannot be written.
type Removal uint8

const (
	Kept Removal = iota
	Noting
	Told
)

func (r Removal) String() string {
	switch r {
	case Kept:
		return "Kept"
	case Noting:
		return "Noting"
	case Told:
		return "Told"
	default:
		return fmt.Sprintf("Removal(%d)", uint8(r))
	}
}

// NotWanted is why a pod is stopped that no source wants.
const NotWanted = "the pod was removed from its source"

// name is what only one pod may run under at a time.
type name struct{ namespace, name string }

func nameOf(p *v1.Pod) name { return name{p.Namespace, p.Name} }
