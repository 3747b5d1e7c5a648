package status

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/statuswrite"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// Message is what the status actor understands. None is coalesced: their order
// counts.
//
//sumtype:decl
type Message interface{ isStatusMessage() }

// Show is what this node has to say of a pod. From pods. The newest counts;
// twice is once. Lost: said with the next.
type Show struct {
	UID    types.UID
	Status *v1.PodStatus
	// Final says that nothing of the pod is left on this node, and that the
	// apiserver may let go of it once Status is acknowledged.
	Final bool
}

// Forget says that this node has nothing more to say of a pod. From pods.
type Forget struct{ UID types.UID }

// Object is what the apiserver has of a pod. From apipods; from mirrors for the
// mirror of the static pod UID. An older one than is known is late, unless the
// apiserver was restored.
type Object struct {
	UID      types.UID
	Pod      *v1.Pod
	Restored bool
}

// Gone says that an object of a pod is no more. From those who told of it. Of
// another object than is known: late.
type Gone struct{ UID, Object types.UID }

// due is this actor's own timer for one pod, for the time at.
type due struct {
	uid types.UID
	at  int64
}

// retry is this actor's own timer for the next try while the apiserver is away.
type retry struct{}

// missed is this actor's own timer, after its mailbox was full.
type missed struct{}

// answered is the result of a call, made with what was known then. One that
// nobody waits for is late, or of a predecessor: whoever comes after reads.
type answered struct {
	id     kernel.EffectID
	uid    types.UID
	what   statuswrite.Verb
	object *v1.Pod
	want   *v1.PodStatus
	got    *v1.Pod
	err    error
}

func (Show) isStatusMessage()     {}
func (Forget) isStatusMessage()   {}
func (Object) isStatusMessage()   {}
func (Gone) isStatusMessage()     {}
func (due) isStatusMessage()      {}
func (retry) isStatusMessage()    {}
func (missed) isStatusMessage()   {}
func (answered) isStatusMessage() {}

// Outcome implements kernel.Outcome.
func (m answered) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// AppendTrace implements kernel.Traced.
func (m Show) AppendTrace(b []byte) []byte {
	b = append(append(append(b, m.UID...), 0), m.Status.Phase...)
	if m.Final {
		b = append(b, 'f')
	}
	return b
}

// AppendTrace implements kernel.Traced.
func (m Object) AppendTrace(b []byte) []byte {
	return append(append(append(b, m.UID...), 0), m.Pod.ResourceVersion...)
}

// AppendTrace implements kernel.Traced.
func (m answered) AppendTrace(b []byte) []byte {
	b = append(append(append(b, m.uid...), 0), byte(m.what))
	if m.got != nil {
		b = append(b, m.got.ResourceVersion...)
	}
	if m.err != nil {
		b = append(b, m.err.Error()...)
	}
	return b
}
