package volumeplan

import (
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
)

// VolumeState is how far one volume of a pod is.
//
//	Waiting ──────► Mounting ──worked──► Up ──content changes──► Rewriting
//	   │             │    ▲              ▲ ▲                         │
//	   │       failed│    │due           │ └────worked or failed─────┘
//	   │             ▼    │              │
//	   ├──refused──► Failed              │
//	   │                                 │
//	   └──csi is asked──► AtCSI ──csi has published it
//
// A volume that is there stays there until the pod is unmounted. Failed and AtCSI change into each other: csi is asked
// once nothing is in the way any more, and refused is what a claim that went bad keeps away. A failure to write a
// volume anew, and one of csi, which tries again by itself, are kept beside the state.
type VolumeState uint8

// States of a volume.
const (
	// VolumeWaiting: nothing goes on. It is not its turn, or an object or the Node is not known yet.
	VolumeWaiting VolumeState = iota
	// VolumeFailed: it could not be mounted, or may not be. It is tried again after a while.
	VolumeFailed
	// VolumeMounting: its mount is under way.
	VolumeMounting
	// VolumeAtCSI: csi was asked for it, and tries again by itself.
	VolumeAtCSI
	// VolumeUp: it is there.
	VolumeUp
	// VolumeRewriting: it is there, and is being mounted again, because its content has changed.
	VolumeRewriting
)

var states = [...]string{"waiting", "failed", "mounting", "at CSI", "up", "rewriting"}

// String is the state as a word.
func (s VolumeState) String() string { return states[s] }

// There reports whether the volume is there.
func (s VolumeState) There() bool { return s == VolumeUp || s == VolumeRewriting }

// Calls reports whether a mount is under way.
func (s VolumeState) Calls() bool { return s == VolumeMounting || s == VolumeRewriting }

// Call is the number of a call, by which its end is known; 0 for none.
type Call uint64

// Volume is all that is known of one volume of a pod.
type Volume struct {
	Mount
	State VolumeState
	// asked: csi was asked for it since the pod has wanted its volumes, and since csi began. unattached is what it says.
	asked, unattached bool
	// path is where it is in the paths of its pod, counted from 1. Invariant: 0 unless it is There.
	path int
	// call is the mount that goes on. Invariant: 0 unless State.Calls.
	call Call
	// version is what was written last.
	version uint64
	// spec is how csi was asked last for all that the volume needs.
	spec *csi.Spec
	// csiWaits is what it waits for at csi, empty for nothing that is known.
	csiWaits string
	// Walk is how far the change of the group of its files is, while it is mounted.
	Walk csi.Walk
	// failure is why the last try failed; nil if it did not. Invariant: not nil if Failed, nil if Waiting.
	failure *Failure
}

// check says which invariant does not hold.
func (v *Volume) check() error {
	switch {
	case v.path != 0 && !v.State.There():
		return fmt.Errorf("path: 0 unless it is There: it is %v", v.State)
	case v.call != 0 && !v.State.Calls():
		return fmt.Errorf("call: 0 unless State.Calls: it is %v", v.State)
	case v.failure == nil && v.State == VolumeFailed, v.failure != nil && v.State == VolumeWaiting:
		return fmt.Errorf("failure: not nil if Failed, nil if Waiting: it is %v", v.State)
	}
	return nil
}

// Check says which invariant of a volume does not hold.
func (p *Pod) Check() error {
	for i := range p.Volumes {
		if err := p.Volumes[i].check(); err != nil {
			return fmt.Errorf("volumestate: volume %s: %w", p.Volumes[i].Name, err)
		}
	}
	return nil
}

// Failure says what failed, in a row.
type Failure struct {
	Count   int
	Message string
	// due is when it is tried again; zero for at once.
	due time.Time
	// conflict: another pod has it otherwise.
	conflict bool
	// place is where it is in the failures of the pod.
	place int
}

// Env is what a decision needs to know beside the pod.
type Env struct {
	// CSI: there is an actor for volumes of CSI drivers.
	CSI bool
	// Node is nil while it is not known.
	Node *v1.Node
	// Taken reports whether another pod has a PersistentVolume, or is being given it.
	Taken func(name string) bool
}

// Op is what is to be done.
type Op uint8

// Operations.
const (
	Nothing Op = iota
	PreparePod
	MountVolume
	// Refuse: the volume may not be brought up. Users are told.
	Refuse
	UnmountPod
)

// obstacle is why a volume can't be brought up; nil if it can. Where a pod already runs with a volume, its nodeAffinity
// does not matter any more.
func (p *Pod) obstacle(v *Volume, env *Env) error {
	if v.Err != nil || p.Later || v.State.There() {
		return v.Err
	}
	if err := Barred(v.Persistent, env.Node); err != nil {
		return err
	}
	if name := v.Alone(); name != "" && env.Taken(name) {
		return ErrTaken
	}
	return nil
}

// unknown: an object is not known yet. The pod tells when it is, and nodestatus for the Node.
func unknown(err error) bool {
	return podobjects.StateOf(err) == podobjects.Unknown || errors.Is(err, ErrNodeUnknown)
}

// NextOf is what to do now for one volume: MountVolume, Refuse and why, or Nothing and when to ask again; zero: when
// something changes. What csi does for a volume is not among it, see AskCSI.
func (p *Pod) NextOf(v *Volume, now time.Time, env *Env) (op Op, again time.Time, why error) {
	if !p.Brings() || v.State.Calls() {
		return Nothing, again, nil
	}
	there, obstacle := v.State.There(), p.obstacle(v, env)
	switch {
	case env.CSI && v.CSI != nil && (obstacle == nil || there): // csi's. One that is there needs no secrets any more.
	case there && (v.Server != "" || v.Claimed && v.Err != nil):
		// A disk that is there needs no secrets any more, and the volume of a claim no claim.
	case there && v.version == v.Version && v.Err == nil:
	case obstacle != nil && unknown(obstacle):
	case v.failure != nil && v.failure.due.After(now):
		return Nothing, v.failure.due, nil
	case obstacle != nil:
		return Refuse, again, obstacle
	default:
		return MountVolume, again, nil
	}
	return Nothing, again, nil
}

// Asked is what csi is asked for.
type Asked struct {
	Name string
	Spec *csi.Spec
}

// AskCSI notes that csi is asked for those volumes of the pod that it has not been asked for, and returns them.
func (p *Pod) AskCSI(env *Env) (out []Asked) {
	if !env.CSI || !p.Brings() {
		return nil
	}
	for i := range p.Volumes {
		v := &p.Volumes[i]
		if v.asked || v.State.Calls() {
			continue
		}
		spec := p.specOf(v, env)
		if spec == nil {
			continue
		}
		if v.asked = true; v.State == VolumeFailed {
			p.mend(v)
		}
		if !v.State.There() {
			v.State = VolumeAtCSI
		}
		out = append(out, Asked{v.Name, spec})
	}
	return out
}

// specOf is what csi is asked for; nil for nothing. A volume that is there is asked for as it was the last time that it
// could be, whatever became of its claim or its secrets, but for the size that the claim wanted then.
func (p *Pod) specOf(v *Volume, env *Env) *csi.Spec {
	there := v.State.There()
	if v.CSI != nil && p.obstacle(v, env) == nil && (v.CSI.NoStageSecret == "" || !there) {
		v.spec = v.CSI
		return v.CSI
	}
	if v.spec == nil || !there {
		return nil
	}
	out := *v.spec
	out.Size = 0
	return &out
}

// AskAgain has csi asked again for all volumes: an answer may have been lost, or csi has lost what it was asked.
func (p *Pod) AskAgain() {
	for i := range p.Volumes {
		p.Volumes[i].asked = false
	}
}

// CSIWaits notes what csi says of a volume that is not there: what it waits for, and whether it is not attached.
func (v *Volume) CSIWaits(text string, unattached bool) { v.csiWaits, v.unattached = text, unattached }

// Published notes where csi has published a volume.
func (p *Pod) Published(v *Volume, path string) {
	p.mend(v)
	p.stands(v, path)
	v.Walk = csi.Walk{}
}

// Mounted notes that the mount that has just ended has worked, and lets go of what was written.
func (p *Pod) Mounted(v *Volume, path string, version uint64) {
	p.mend(v)
	p.stands(v, path)
	if v.version = version; v.Version == version {
		v.Content = nil
	}
}

// Walked notes how far the change of the group of a volume's files is, and reports whether that is to be told. The
// volume is mounted, so what failed before has not failed now.
func (p *Pod) Walked(v *Volume, w csi.Walk) bool {
	v.Walk = w
	if p.Down() || p.Object == nil {
		return false
	}
	p.mend(v)
	return true
}

// mend forgets what failed.
func (p *Pod) mend(v *Volume) {
	if v.State == VolumeFailed {
		v.State = VolumeWaiting
	}
	p.drop(&v.failure)
}
