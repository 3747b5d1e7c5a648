package nodestatus

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// Message is what the nodestatus actor understands. Results carry their effect. Results of other
// effects are late, or of a predecessor, and are ignored.
//
//sumtype:decl
type Message interface{ isNodeStatusMessage() }

// ReadNode asks for the Node to be read once more. From podset, which numbers its questions. podset.NodeRead answers
// it, also if the Node can't be read. Lost: asked again. Twice: it is read twice.
type ReadNode struct{ Number uint64 }

// Pressure says which resources of the node run short. Published by eviction, at each change.
type Pressure struct{ eviction.Conditions }

// Lists says since when lists of the runtime fail, with the zero time that they work again. From node, after each list
// that failed and the first that works. Lost: a list that fails repeats it. Twice: as once.
type Lists struct{ FailSince time.Time }

// Devices are those of device plugins. Published by devices, at its start and with each change.
type Devices struct {
	Of map[v1.ResourceName]nodeobject.Devices
}

// InUse are the volumes for status.volumesInUse, sorted. Published by csi, once they are known and with each change.
// Volumes is never nil.
type InUse struct{ Volumes []v1.UniqueVolumeName }

// CSINodeWritten says that the CSINode has been written since the agent's start. Published by csi, the first time.
type CSINodeWritten struct{}

// ShuttingDown says that the machine is shutting down, or no longer is: the node is not ready. Published by shutdown.
type ShuttingDown struct{ On bool }

// journaled is the result of reading or writing the mark of a reset, or the timer after a failed write.
type journaled struct{ checkpoint.Event }

// told is an event of the watch of this node's object. Lost: the actor watches again.
type told struct {
	id     kernel.EffectID
	change port.APIChange
}

// ended says that the watch ended.
type ended struct{ id kernel.EffectID }

// reopen is this actor's own timer for the next watch.
type reopen struct{}

// unheard is this actor's own timer for a silent watch.
type unheard struct{ id kernel.EffectID }

// poll is this actor's own timer for the next poll of the runtime.
type poll struct{}

// again is this actor's own timer for the next call to the apiserver.
type again struct{}

// renew is this actor's own timer for the lease.
type renew struct{}

// runtimeVersion and runtimeStatus are results of a poll of the runtime.
type runtimeVersion struct {
	id      kernel.EffectID
	version port.RuntimeVersion
	err     error
}

type runtimeStatus struct {
	id     kernel.EffectID
	status port.RuntimeStatus
	err    error
}

// machine is the result of reading the machine's facts.
type machine struct {
	id      kernel.EffectID
	machine *port.Machine
	err     error
}

// images is the result of listing the images.
type images struct {
	id   kernel.EffectID
	list []observed.Image
	err  error
}

// reread is this actor's own timer for reading the node's object while its watch is silent.
type reread struct{}

// nodeRead is the result of that read.
type nodeRead struct {
	id   kernel.EffectID
	node *v1.Node
	err  error
}

// askedRead is the result of reading the node's object for pods.
type askedRead struct {
	id     kernel.EffectID
	number uint64
	node   *v1.Node
	err    error
}

// written is the result of a call about the node's object.
type written struct {
	id   kernel.EffectID
	what string
	node *v1.Node
	err  error
}

// leased is the result of a call about the lease that began at begun.
type leased struct {
	id    kernel.EffectID
	what  string
	at    time.Time
	lease *coordinationv1.Lease
	err   error
}

func (Pressure) isNodeStatusMessage()       {}
func (Lists) isNodeStatusMessage()          {}
func (ReadNode) isNodeStatusMessage()       {}
func (Devices) isNodeStatusMessage()        {}
func (ShuttingDown) isNodeStatusMessage()   {}
func (InUse) isNodeStatusMessage()          {}
func (CSINodeWritten) isNodeStatusMessage() {}
func (told) isNodeStatusMessage()           {}
func (ended) isNodeStatusMessage()          {}
func (reopen) isNodeStatusMessage()         {}
func (unheard) isNodeStatusMessage()        {}
func (poll) isNodeStatusMessage()           {}
func (again) isNodeStatusMessage()          {}
func (renew) isNodeStatusMessage()          {}
func (runtimeVersion) isNodeStatusMessage() {}
func (runtimeStatus) isNodeStatusMessage()  {}
func (machine) isNodeStatusMessage()        {}
func (images) isNodeStatusMessage()         {}
func (reread) isNodeStatusMessage()         {}
func (nodeRead) isNodeStatusMessage()       {}
func (askedRead) isNodeStatusMessage()      {}
func (written) isNodeStatusMessage()        {}
func (leased) isNodeStatusMessage()         {}
func (journaled) isNodeStatusMessage()      {}

// MailboxKey implements kernel.Keyed.
func (Lists) MailboxKey() string { return "lists" }

// MailboxKey implements kernel.Keyed.
func (ReadNode) MailboxKey() string { return "readNode" }
