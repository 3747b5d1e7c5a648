// Package volumes is the actor that mounts and unmounts the volumes of pods. Each volume
// has its own lane, so a volume that hangs delays only its own pod.
//
//	pod ──Mount, Unmount──► volumes ──PreparePod, MountVolume, GrowVolume, UnmountPod──► host
//	pod ◄──VolumesAnswer── volumes ──UseCSI, ReleaseCSI──► csi ──CSIAnswer, CSIReleased, CSIRestarted──► volumes
//	podset ──Retain──► volumes ◄──NodeSeen── nodestatus
//
// decide/volumeplan decides what is next for each volume and for a pod as a whole. The actor makes the calls. Volumes
// of CSI drivers are left to the actor csi. A pod is unmounted once they are released.
//
// A pod sends its volumes again when their objects or the pod itself have changed.
// Volumes with changed content are rewritten. If that fails, the volumes and the pod
// stay as they were.
//
// After a restart the actor has no state. Pods send their requests again, with the paths of
// what they know to be mounted, which stays. The rest is mounted again (port.Host is idempotent).
package volumes

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
)

// Message is what the volumes actor understands.
//
//sumtype:decl
type Message interface{ isVolumesMessage() }

// Mount is a pod's wish for all its volumes, with what is known of their objects. From pod. Lost: sent again when this
// actor asks. Twice: answered twice.
type Mount struct{ pod.MountVolumes }

// Unmount takes all volumes of a pod down. It overtakes a Mount under way. From pod; as with Mount.
type Unmount struct{ pod.UnmountVolumes }

// Retain lists all pods that there are. From podset, once after its restart: the actors of other pods
// ended with it, without an Unmount. Lost: what such a pod waited for is tried on. Pods is shared and
// never changed.
type Retain struct{ Pods map[types.UID]bool }

// NodeSeen is the Node of this machine, when its labels may have changed. Published by nodestatus, or by machine. Until
// it comes, PersistentVolumes with a nodeAffinity wait.
type NodeSeen struct{ Node *v1.Node }

// CSIAnswer says what is new of the volumes of a pod, in the order in which that became known. From csi. Lost: answered
// again when asked. Late: the newest counts.
type CSIAnswer struct {
	UID  types.UID
	News []CSINews
}

// CSINews says how far one volume is; with an empty Volume, how far ReleaseCSI is.
type CSINews struct {
	Volume string
	// Path is where it is, empty if it is not there.
	Path string
	// Failure is what has failed just now, Waiting what is waited for; either may be empty. Failure with a Path: it was to
	// be published once more.
	Failure, Waiting string
	// Unattached: it is not there because it is not attached to the node.
	Unattached bool
	// Walk is how far the change of the group of its files is, while that takes long.
	Walk csi.Walk
}

// CSIReleased says that nothing of a pod is published any more. From csi. Lost: ReleaseCSI is sent again.
type CSIReleased struct{ UID types.UID }

// CSIRestarted says that csi has lost what it was asked. From csi. Twice: asked twice.
type CSIRestarted struct{}

// done is the result of one effect for one pod; volume is empty for those that
// are about the pod as a whole.
type done struct {
	id     kernel.EffectID
	uid    types.UID
	what   step
	volume string
	path   string
	// version is what the volume holds now.
	version uint64
	// size is what the volume was grown to, 0 for nothing.
	size int64
	err  error
}

// walked tells how many files of a volume have been given to the group of its pod, while that takes long. From its
// effect. Lost: the next one tells more.
type walked struct {
	uid    types.UID
	volume string
	files  int64
}

// shared tells that another pod has a volume, whose files stay with that group. From the effect of a mount. Lost:
// nobody is warned. Twice: warned twice.
type shared struct {
	uid    types.UID
	volume string
	group  int64
}

// grown is the result of a look at one volume: its size, if it was grown or should have been.
type grown struct {
	id   kernel.EffectID
	uid  types.UID
	pv   string
	size int64
	err  error
}

// look is this actor's own timer for looking at the sizes of local volumes in use. It stops when there are none.
type look struct{}

// overdue is this actor's own timer for a pod whose volumes take long.
type overdue struct{ uid types.UID }

// again is this actor's own timer for one pod.
type again struct{ uid types.UID }

func (Mount) isVolumesMessage()        {}
func (Unmount) isVolumesMessage()      {}
func (Retain) isVolumesMessage()       {}
func (NodeSeen) isVolumesMessage()     {}
func (CSIAnswer) isVolumesMessage()    {}
func (CSIReleased) isVolumesMessage()  {}
func (CSIRestarted) isVolumesMessage() {}
func (done) isVolumesMessage()         {}
func (walked) isVolumesMessage()       {}
func (shared) isVolumesMessage()       {}
func (grown) isVolumesMessage()        {}
func (look) isVolumesMessage()         {}
func (overdue) isVolumesMessage()      {}
func (again) isVolumesMessage()        {}

// Outcome implements kernel.Outcome.
func (m done) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// Outcome implements kernel.Outcome.
func (m grown) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// step is what an effect does.
type step uint8

const (
	prepare step = iota
	mount
	unmount
	grow
)

func (s step) String() string {
	return [...]string{"PreparePod", "MountVolume", "UnmountPod", "ExpandVolume"}[s]
}

// UseCSI asks for volumes of a pod: in one message, because a pod may have more of them than a mailbox has places. It
// is answered with CSIAnswer each time, and again when something changes.
type UseCSI struct {
	Pod     *v1.Pod
	Volumes []CSIVolume
}

// CSIVolume is one of them. Name is that in the pod.
type CSIVolume struct {
	Name string
	Spec *csi.Spec
}

// ReleaseCSI says that nothing of a pod runs: its volumes are to be unpublished. It is answered with CSIReleased.
type ReleaseCSI struct{ UID types.UID }
