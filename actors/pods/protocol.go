// Package pods is the parent of the actors of all pods of this node. It starts and stops them, and relays to them what
// the runtime says. A panic here stops the actors of all pods, so it does nothing else: podset decides which pods there
// are, and sends each what is desired.
//
//	podset ──Begin, End, List──► pods ──Begun──► podset
//	pleg ──Hint, RuntimeBack──► pods ──RuntimeHint, RuntimeBack──► pod
//
// The actors outlive a restart of podset. They do not outlive one of this actor, which then has podset begin them all
// again.
package pods

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pleg"
	"github.com/troupe-dev/troupe/actors/pod"
)

// Message is what the pods actor understands.
//
//sumtype:decl
type Message interface{ isPodsMessage() }

// Begin asks for the actor of a pod in one of its lives. An actor of another life is stopped first. From podset.
// Deps.Begun answers it, also if the actor is there already. Lost: podset asks again, see Deps.Missed. Twice: answered
// twice.
type Begin struct {
	Pod *v1.Pod
	// Life is pod.Assign.FirstSandbox.
	Life uint32
}

// End stops the actor of a pod, if there is one. From podset, when nothing is left of the pod or its next life is to
// begin. Lost: the actor stays; podset finds it, see Deps.Missed. Twice: as once.
type End struct{ UID types.UID }

// List asks which pods have an actor. From podset, and from the health check. Reply must do no more than send a
// message. Lost: podset asks again, see Deps.Missed.
type List struct{ Reply func([]Child) }

// Hint is relayed to its pod. From pleg. Lost: the next relist finds it.
type Hint struct{ pleg.Hint }

// RuntimeBack is relayed to all pods. From pleg, when the runtime answers again. Lost: failed calls are retried at the
// end of their backoff.
type RuntimeBack struct{}

func (Begin) isPodsMessage()       {}
func (End) isPodsMessage()         {}
func (List) isPodsMessage()        {}
func (Hint) isPodsMessage()        {}
func (RuntimeBack) isPodsMessage() {}

// Child is the actor of a pod.
type Child struct {
	Pod  observed.PodRef
	Ref  kernel.Ref[pod.Message]
	Life uint32
}
