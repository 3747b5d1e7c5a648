package status

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/apipod"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// Message is what the status actor understands. None is coalesced: their order
// counts.
//
//sumtype:decl
type Message interface{ isStatusMessage() }

// Show is the status of a pod on this node. From podset. The newest counts. Twice: as once. Lost:
// repeated with the next.
type Show struct {
	UID    types.UID
	Status *v1.PodStatus
	// Final says that nothing of the pod is left on this node. The apiserver may remove it once
	// Status is acknowledged.
	Final bool
}

// Shows are the statuses of many pods at once, when all are asked for. From podset. A node may have more pods than a
// mailbox has places, most of which have ended: one by one they would be lost, and asked for again, for ever.
type Shows struct{ All []Show }

// Forget says that this node has no status of a pod any more. From podset.
type Forget struct{ UID types.UID }

// Object is the apiserver's object of a pod. From apipods; from mirrors for the mirror of the
// static pod UID. One older than the known one is late, unless the apiserver was restored. If it is from
// a list, that can't be told: it is read.
type Object struct {
	UID              types.UID
	Pod              *v1.Pod
	Listed, Restored bool
}

// Objects are the objects of many pods at once: of a list, or when all are asked for. From apipods. See Shows.
type Objects struct{ All []Object }

// Gone says that an object of a pod was removed. From the senders of Object. Late if another
// object is known by now.
type Gone struct{ UID, Object types.UID }

// Unwritten asks how many pods have a status that the apiserver has not acknowledged. From shutdown. Reply must do
// no more than send a message. Lost: asked again.
type Unwritten struct{ Reply func(pods int) }

// due is this actor's own timer for one pod; at identifies it.
type due struct {
	uid types.UID
	at  int64
}

// retry is this actor's own timer for the next call while the apiserver is away.
type retry struct{}

// answered is the result of a call, made with the state of then. An unknown ID is late, or of a
// predecessor: this incarnation reads each pod first.
type answered struct {
	id     kernel.EffectID
	uid    types.UID
	what   apipod.WriteVerb
	object *v1.Pod
	want   *v1.PodStatus
	got    *v1.Pod
	err    error
}

func (Show) isStatusMessage()      {}
func (Shows) isStatusMessage()     {}
func (Forget) isStatusMessage()    {}
func (Object) isStatusMessage()    {}
func (Objects) isStatusMessage()   {}
func (Gone) isStatusMessage()      {}
func (Unwritten) isStatusMessage() {}
func (due) isStatusMessage()       {}
func (retry) isStatusMessage()     {}
func (answered) isStatusMessage()  {}

// Outcome implements kernel.Outcome.
func (m answered) Outcome() (kernel.EffectID, error) { return m.id, m.err }
