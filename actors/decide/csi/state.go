package csi

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Key names a volume.
type Key struct{ Driver, Handle string }

// String is driver and handle.
func (k Key) String() string { return k.Driver + " " + k.Handle }

// Compare orders keys.
func (k Key) Compare(o Key) int {
	return cmp.Or(strings.Compare(k.Driver, o.Driver), strings.Compare(k.Handle, o.Handle))
}

// State is how far a volume is staged on this node, or published for one pod. Calls are idempotent, so one that may
// have had an effect is made again.
//
//	None ──call begins──► Uncertain ──it has worked──► Done
//	 ▲ ▲                    │  ▲  ▲                     │
//	 │ └──first call has────┘  │  └────undo begins──────┘
//	 │    finally failed       └─┐
//	 └──────undo has worked──────┘ it has not
type State uint8

// States of a staging or publication.
const (
	// None: nothing is there.
	None State = iota
	// Uncertain: a call has begun, and may have had an effect. So is what an earlier agent left.
	Uncertain
	// Done: the call has worked.
	Done
)

var states = [...]string{"none", "uncertain", "done"}

// String is the state as a word.
func (s State) String() string { return states[s] }

// Want is what a pod wants of its publication.
type Want uint8

const (
	// Kept: an earlier agent published it, and the pod has not said anything yet, or the pod needs another volume by now.
	// It stays.
	Kept Want = iota
	// Wanted: the pod needs it.
	Wanted
	// Released: nothing of the pod runs, so it has to go.
	Released
)

// Op is what is to be done for a volume.
type Op uint8

// Operations.
const (
	Attachment Op = iota // read the VolumeAttachment
	StageVolume
	PublishVolume
	UnpublishVolume
	UnstageVolume
	ExpandVolume
)

var ops = [...]string{"GetVolumeAttachment", "NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume",
	"NodeUnstageVolume", "NodeExpandVolume"}

// String is the call.
func (o Op) String() string { return ops[o] }

// Target is a publication: the pod, and the name of the PersistentVolume, or of the inline volume in the pod.
type Target struct {
	Pod  types.UID
	Name string
}

// Compare orders targets.
func (t Target) Compare(o Target) int {
	return cmp.Or(strings.Compare(string(t.Pod), string(o.Pod)), strings.Compare(t.Name, o.Name))
}

// Step is one thing to do. Target is zero, unless the operation is about one publication.
type Step struct {
	Op     Op
	Target Target
}
