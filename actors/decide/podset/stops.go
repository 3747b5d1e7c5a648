package podset

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// StopReason is why the node stops a pod. What a pod ends for by itself (its containers have finished, its deadline, an
// init container that failed) is decided by the plan of its actor, from facts that the next agent has too: podplan.
//
//	reason       who asks                                   in the checkpoint   its actor is told
//	ForDeletion  the apiserver deletes it, also by force    no: it says again   at once
//	ForRelease   the apiserver has it no more               no: it says again   at once
//	ForRemoval   no other source wants it                   yes, with grace     when it is saved
//	ForNode      eviction, preemption, shutdown             yes, all of it      at once to end sooner, why when saved
//	ForRefusal   admission, after it has begun              no: judged again    at once
//
// If several ask, none makes the pod end later than the one before, and the first ForNode says why it ends
// (podlife.Stop.Merged). A refusal takes the place of what was before: nothing of the pod was to run.
type StopReason uint8

const (
	ForDeletion StopReason = iota
	ForRelease
	ForRemoval
	ForNode
	ForRefusal
)

func (r StopReason) String() string {
	return [...]string{"ForDeletion", "ForRelease", "ForRemoval", "ForNode", "ForRefusal"}[r]
}

// Stops are the reasons for which a pod is stopped, together: how it ends, and what of it is saved.
type Stops struct {
	// Stop is how it is stopped; nil if it is not.
	Stop *podlife.Stop
	// Removal is the progress of a stop because no source wants the pod. Invariant: if it is not Kept,
	// Stop is set.
	Removal Removal
	// Eviction is the progress of a stop that protects the node. Invariant: if it is not Kept, Stop is set.
	Eviction Removal
	// StopWithoutEviction is the stop to use until the eviction is in the checkpoint: what else asked for a stop. Nil if
	// nothing did. Invariant: it is nil unless Eviction is Unsaved.
	StopWithoutEviction *podlife.Stop
}

// check says which invariant does not hold.
func (s *Stops) check(uid types.UID) error {
	switch {
	case s.Stop == nil && s.Removal != Kept:
		return fmt.Errorf("podset: %s: Removal: if it is not Kept, Stop is set: it is %v", uid, s.Removal)
	case s.Stop == nil && s.Eviction != Kept:
		return fmt.Errorf("podset: %s: Eviction: if it is not Kept, Stop is set: it is %v", uid, s.Eviction)
	case s.StopWithoutEviction != nil && s.Eviction != Unsaved:
		return fmt.Errorf("podset: %s: StopWithoutEviction: it is nil unless Eviction is Unsaved: that is %v",
			uid, s.Eviction)
	}
	return nil
}

// Add adds a reason. It reports whether it is new, and is to be saved before the pod's actor is told of it. A later
// ForNode, or one of a pod that was refused, can only end it sooner.
func (s *Stops) Add(why StopReason, next podlife.Stop) (unsaved bool) {
	switch why {
	case ForDeletion:
	case ForRelease:
		s.Removal = Saved
	case ForRemoval:
		s.Removal, unsaved = Unsaved, true
	case ForNode:
		if unsaved = s.Eviction == Kept && (s.Stop == nil || !s.Stop.Fail); unsaved {
			s.Eviction, s.StopWithoutEviction = Unsaved, s.Stop
		}
		s.Stop = Sooner(s.Stop, next)
		if s.StopWithoutEviction != nil {
			asked := s.StopWithoutEviction.Shortened(next)
			s.StopWithoutEviction = &asked
		}
		return unsaved
	case ForRefusal:
		s.Stop = &next
		return false
	}
	s.Stop = Sooner(s.Stop, next)
	if s.Eviction == Unsaved {
		s.StopWithoutEviction = Sooner(s.StopWithoutEviction, next)
	}
	return unsaved
}

// Recall takes in a reason that is in the checkpoint of an earlier agent. The apiserver may have deleted the pod
// meanwhile.
func (s *Stops) Recall(why StopReason, saved podlife.Stop) {
	if why == ForNode {
		s.Eviction = Saved
	} else {
		s.Removal = Saved
	}
	if s.Stop != nil {
		saved = saved.Shortened(*s.Stop)
	}
	s.Stop = &saved
}

// MarkSaved says that the stop is in the checkpoint, or can't be written. It reports whether the pod's actor waited for
// that.
func (s *Stops) MarkSaved() bool {
	waited := s.Removal == Unsaved || s.Eviction == Unsaved
	if s.Removal == Unsaved {
		s.Removal = Saved
	}
	if s.Eviction == Unsaved {
		s.Eviction, s.StopWithoutEviction = Saved, nil
	}
	return waited
}

// EffectiveStop is the stop that the pod's actor may know now; nil for none.
func (s *Stops) EffectiveStop() *podlife.Stop {
	switch {
	case s.Removal == Unsaved:
		return nil
	case s.Eviction == Unsaved:
		return s.StopWithoutEviction
	default:
		return s.Stop
	}
}

// ToSave are the stops for the checkpoint: that no source wants a pod, and that the node ends it; nil for none.
func (s *Stops) ToSave(origin podspec.Origin) (removal, eviction *podlife.Stop) {
	if s.Removal != Kept && origin != podspec.API {
		removal = s.Stop
	}
	if s.Eviction != Kept {
		eviction = s.Stop
	}
	return removal, eviction
}

// Sooner is how to stop a pod that is asked to stop again: never later than before. If the node ends it by its own
// decision, that is why it ends (podlife.Stop.Merged).
func Sooner(before *podlife.Stop, next podlife.Stop) *podlife.Stop {
	if before != nil {
		next = before.Merged(next)
	}
	return &next
}
