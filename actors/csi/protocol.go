// Package csi is the actor that owns what CSI drivers have staged and published on this node (KEP-178), and what the
// node's CSINode shows of them. The decisions are in decide/csi.
//
//	volumes ──Use, Release──► csi ──CSIAnswer, CSIReleased──► volumes
//	csi ──NodeStageVolume, NodePublishVolume, …──► CSI drivers      csi ──Get, Watch, Create, Update, Patch──► apiserver
//	nodestatus ──NodeSeen──► csi ──InUse──► nodestatus
//	csi ──Living──► podset (in each sweep)      csi ──Evict──► podset (the node has no room for a volume)
//
// A volume of a pod, from top to bottom, and back when the last pod of the node has released it:
//
//	Use ──► named in status.volumesInUse ──► attached (status.volumesAttached, VolumeAttachment)
//	    ──NodeStageVolume──► staged ──NodePublishVolume──► published for the pod ──► CSIAnswer
//	                              if it is too small: ──NodeExpandVolume, once──► CSIAnswer
//	Release ──NodeUnpublishVolume──► CSIReleased
//	         └─the last pod──NodeUnstageVolume──► no longer named in status.volumesInUse
//
// Each volume has its own lane with one call at a time: one that hangs holds up that volume only. A call that has
// failed without an answer may have worked, so it is made again, or undone.
//
//	(none) ──registers──► there ──NodeGetInfo──► shown in CSINode ──socket gone──► gone, and shown ──Grace──► not shown
//
// After a restart the actor reads from the notes on disk what there may be, asks nodestatus for the Node, and volumes
// ask again.
package csi

import (
	"context"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
	"github.com/troupe-dev/troupe/actors/volumes"
)

// Message is what the actor understands.
//
//sumtype:decl
type Message interface{ isCSIMessage() }

// Use asks for volumes of a pod. From volumes. Lost: asked again when told that this actor restarted. Twice: answered
// twice; the newest counts.
type Use struct{ volumes.UseCSI }

// Release says that nothing of a pod runs. From volumes; as with Use.
type Release struct{ volumes.ReleaseCSI }

// NodeSeen is the Node, when it was replaced or has changed. Published by nodestatus.
type NodeSeen struct{ Node *v1.Node }

// loaded is what an earlier agent left.
type loaded struct {
	id         kernel.EffectID
	found      []decide.Found
	lost       []decide.Lost
	unreadable []string
	err        error
}

// found is what the watch of drivers tells, closed is its end. id is the watch.
type (
	found struct {
		id     kernel.EffectID
		driver port.CSIDriver
	}
	closed struct {
		id  kernel.EffectID
		err error
	}
)

// told is an event of the watch of CSIDrivers, ended is its end. Lost: the actor watches again.
type (
	told struct {
		id     kernel.EffectID
		change port.APIChange
	}
	ended struct{ id kernel.EffectID }
)

// stepped is the result of a step of a volume.
type stepped struct {
	id      kernel.EffectID
	key     decide.Key
	step    decide.Step
	path    string
	context map[string]string
	// size is what a driver was asked to expand the volume to; 0 if it was not asked.
	size int64
	err  error
}

// walked tells how many files of a volume have been given to the group of a pod, while that takes long. Lost: the next
// one tells more.
type walked struct {
	key    decide.Key
	target decide.Target
	files  int64
}

// informed is what a driver says of this node.
type informed struct {
	id     kernel.EffectID
	driver string
	info   decide.Info
	err    error
}

// shown is the result of writing what drivers say of this node. refused says of which drivers it could not be shown,
// others are those that the CSINode has beside.
type shown struct {
	id      kernel.EffectID
	version uint64
	refused map[string]string
	others  []string
	err     error
}

// living is the answer of podset to a sweep.
type living struct{ pods map[types.UID]bool }

// These are this actor's own timers: to read again what there is, to open the watches, to go on with a volume, to ask a
// driver how the node is to be shown, to show one no more, to write that, to begin a sweep.
type (
	loadAgain  struct{}
	reopen     struct{}
	watchAgain struct{}
	again      struct{ key decide.Key }
	ask        struct {
		driver string
		since  uint64
	}
	hide struct {
		driver string
		since  uint64
	}
	showAgain struct{}
	sweep     struct{}
)

func (Use) isCSIMessage()        {}
func (Release) isCSIMessage()    {}
func (NodeSeen) isCSIMessage()   {}
func (loaded) isCSIMessage()     {}
func (found) isCSIMessage()      {}
func (closed) isCSIMessage()     {}
func (told) isCSIMessage()       {}
func (ended) isCSIMessage()      {}
func (stepped) isCSIMessage()    {}
func (walked) isCSIMessage()     {}
func (informed) isCSIMessage()   {}
func (shown) isCSIMessage()      {}
func (living) isCSIMessage()     {}
func (loadAgain) isCSIMessage()  {}
func (reopen) isCSIMessage()     {}
func (watchAgain) isCSIMessage() {}
func (again) isCSIMessage()      {}
func (ask) isCSIMessage()        {}
func (hide) isCSIMessage()       {}
func (showAgain) isCSIMessage()  {}
func (sweep) isCSIMessage()      {}

// API is what the actor uses of port.API.
type API interface {
	portcall.Watcher
	Get(ctx context.Context, k port.APIKey, done func(port.APIObject, error))
	Create(ctx context.Context, o port.APIObject, done func(port.APIObject, error))
	Update(ctx context.Context, o port.APIObject, done func(port.APIObject, error))
	Patch(ctx context.Context, p port.APIPatch, done func(port.APIObject, error))
	CreateToken(
		ctx context.Context, namespace, serviceAccount string, spec authenticationv1.TokenRequestSpec,
		done func(authenticationv1.TokenRequestStatus, error),
	)
}

// Settings are what the configuration says of volumes of CSI drivers.
type Settings struct {
	// StatsPeriod is the time between questions for the figures of a published volume (volumeStatsAggPeriod); 0 or less:
	// drivers are not asked. VolumeHealth: the condition of volumes counts (feature gate CSIVolumeHealth).
	StatsPeriod  time.Duration
	VolumeHealth bool
	// NotAttached says why no controller attaches volumes to this node; empty if one does
	// (enableControllerAttachDetach).
	NotAttached string
}

// Deps are what the actor needs.
type Deps struct {
	Settings
	Drivers port.CSI
	API     API
	Events  port.Recorder
	// Node is its name.
	Node string
	// Answer, Released and Restarted tell volumes.
	Answer    func(volumes.CSIAnswer)
	Released  func(types.UID)
	Restarted func()
	// InUse publishes which volumes may be in use, Written that the CSINode was written.
	InUse   func([]v1.UniqueVolumeName)
	Written func()
	// Living asks podset which pods there are; it may not be answered.
	Living func(reply func(map[types.UID]bool))
	// Backoff is for all that fails.
	Backoff backoff.Policy
	// Reject ends a pod that can't run on this node, for a reason and with a message for people.
	Reject func(p *v1.Pod, reason, message string, at time.Time)
}

const (
	// CallDeadline bounds a call of a driver, as a kubelet does. unneeded bounds a publication that no pod needs any more.
	// It is longer than what drivers are given for calls by their own sidecars, 15 s, and so what they have to cope with.
	CallDeadline = 2 * time.Minute
	unneeded     = 30 * time.Second
	apiDeadline  = 30 * time.Second
	// Grace is how long a driver is shown that is gone, or not there when the agent starts. Its pod may have to pull its
	// image, or wait for the end of its backoff, which is five minutes at most.
	Grace = 10 * time.Minute
	// firstSweep is when the actor looks for volumes of pods that went while no agent ran, sweepEvery how often after.
	firstSweep, sweepEvery = 10 * time.Second, time.Minute
	// checkEvery is how often the CSINode, and what drivers say of this node in the Node, is compared with what it should
	// be: a node may not watch its CSINode.
	checkEvery = 10 * time.Minute
	// eventAfter is after how many failures of NodeGetInfo in a row there is an event.
	eventAfter = 3
	// republishEvery is the time between publications of a volume whose driver wants that (requiresRepublish), as a
	// kubelet has it.
	republishEvery = 90 * time.Second
	// lookEvery is the time between looks at the claims of published volumes.
	lookEvery  = time.Minute
	retryAfter = 5 * time.Second
	// settling is how long a new incarnation waits for calls of its predecessor.
	settling = 100 * time.Millisecond
)
