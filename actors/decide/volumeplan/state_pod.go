package volumeplan

import (
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// Phase is how far the volumes of a pod are.
//
//	            PreparePod             all are there
//	Preparing ──────────────► Bringing ◄───────────► Complete
//	    │                        │    one more is used   │
//	    └────────TakeDown────────┴───────────────────────┘
//	                             ▼
//	                         Releasing ──CSI drivers have unpublished all──► Unmounting ──UnmountPod──► (forgotten)
//
// Without CSI a pod is Unmounting at once. It is unmounted once no mount of it is under way any more: that would come
// up behind our back.
type Phase uint8

// Phases of a pod.
const (
	// Preparing: the directories of the pod are being made.
	Preparing Phase = iota
	// Bringing: some volumes are not there.
	Bringing
	// Complete: all volumes are there. What is in them may not be the newest.
	Complete
	// Releasing: it is being taken down, and csi was asked to release its volumes.
	Releasing
	// Unmounting: it is being taken down, and csi has nothing of it.
	Unmounting
)

var phases = [...]string{"preparing", "bringing", "complete", "releasing", "unmounting"}

// String is the phase as a word.
func (p Phase) String() string { return phases[p] }

// Pod is all that is known of the volumes of one pod.
type Pod struct {
	Phase Phase
	// Later: the pod runs with its volumes already, and other pods go first.
	Later bool
	// toldPending: the pod knows that its volumes are on their way, and no more.
	toldPending bool
	// overdue: it was said that this takes long.
	overdue bool
	// Object is nil before the first request, and once a pod that has no volumes is up: its newer versions do not come
	// here, and there is no need to keep an old one.
	Object *v1.Pod
	// Volumes are those that the pod uses, in its order. at is where each is, by name; nil for few.
	Volumes []Volume
	at      map[string]int
	// paths are where volumes are, in the order in which they came up. The pod has the list too.
	paths smallmap.Map[string, string]
	// left is how many volumes are not there. first is where the first of those may be: none is before it.
	left, first int
	// call is the call for the pod as a whole that goes on, and failure why the last one failed.
	call    Call
	failure *Failure
	// releaseWaits is what the release of its CSI volumes waits for.
	releaseWaits string
	// coming are the mounts and growths that are under way while it is taken down, those of an earlier incarnation of
	// the actor included.
	coming map[Call]bool
	// failures are all that there are.
	failures []*Failure
	// since is when this was asked for.
	since time.Time
}

// Down reports whether the pod is being taken down. Nothing is brought up any more.
func (p *Pod) Down() bool { return p.Phase >= Releasing }

// Brings reports whether volumes may be brought up.
func (p *Pod) Brings() bool { return p.Phase == Bringing || p.Phase == Complete }

// settle follows left.
func (p *Pod) settle() {
	if p.Brings() {
		if p.Phase = Complete; p.left > 0 {
			p.Phase = Bringing
		}
	}
}

// Paths are where the volumes are, by name. They are for others to keep: what is in the list is not changed.
func (p *Pod) Paths() smallmap.Map[string, string] { return p.paths[:len(p.paths):len(p.paths)] }

// Named is the volume of that name; nil if the pod does not use one.
func (p *Pod) Named(name string) *Volume {
	if p.at != nil {
		if i, is := p.at[name]; is {
			return &p.Volumes[i]
		}
		return nil
	}
	for i := range p.Volumes {
		if p.Volumes[i].Name == name {
			return &p.Volumes[i]
		}
	}
	return nil
}

// Replan notes how the volumes are to be mounted from now on. What has failed is tried again at once.
func (p *Pod) Replan(plan []Mount) {
	old, kept := smallmap.LookupIn(p.Volumes, func(v *Volume) string { return v.Name }), 0
	var volumes []Volume
	if len(plan) > 0 {
		volumes = make([]Volume, len(plan))
	}
	p.at, p.left, p.first = nil, 0, 0
	if len(plan) > smallmap.Few {
		p.at = make(map[string]int, len(plan))
	}
	for i := range plan {
		v := &volumes[i]
		if was := old.Place(plan[i].Name, i); was >= 0 {
			*v = p.Volumes[was]
			kept++
		}
		if v.Mount = plan[i]; v.failure != nil {
			v.failure.due = time.Time{}
		}
		if !v.State.There() {
			p.left++
		}
		if p.at != nil {
			p.at[v.Name] = i
		}
	}
	if kept < len(p.Volumes) {
		p.forgetOthers(volumes)
	}
	p.Volumes = volumes
	p.settle()
}

// forgetOthers forgets what is known of volumes that the pod does not use any more.
func (p *Pod) forgetOthers(volumes []Volume) {
	paths := p.paths
	p.paths, p.failures = nil, nil
	p.list(p.failure)
	for i := range volumes {
		v := &volumes[i]
		if p.list(v.failure); v.path > 0 {
			p.paths = append(p.paths, paths[v.path-1])
			v.path = len(p.paths)
		}
	}
}

// Want notes what the pod wants, and what it knows to be there: that stays, whatever became of the labels of the Node
// or of its claim. An earlier incarnation of the actor has mounted it. What is in it is written again.
func (p *Pod) Want(pod *v1.Pod, later bool, there smallmap.Map[string, string]) {
	for _, e := range there {
		if v := p.Named(e.Key); v != nil && !v.State.There() {
			p.stands(v, e.Value)
		}
	}
	p.AskAgain()
	p.Object, p.Later, p.toldPending = pod, later, true
}

// stands notes where a volume is.
func (p *Pod) stands(v *Volume, path string) {
	switch {
	case v.path == 0:
		p.paths = append(p.paths, smallmap.Entry[string, string]{Key: v.Name, Value: path})
		v.path = len(p.paths)
		p.left--
		p.settle()
	case p.paths[v.path-1].Value != path:
		p.paths = p.paths.Clone() // the pod has the list
		p.paths[v.path-1].Value = path
	}
	if v.State = VolumeUp; v.call != 0 {
		v.State = VolumeRewriting
	}
}

// Next is the call for the pod as a whole that is to begin now, PreparePod or UnmountPod, or Nothing and when to ask
// again; zero: when something changes.
func (p *Pod) Next(now time.Time) (op Op, again time.Time) {
	switch {
	case p.call != 0:
		return Nothing, again
	case p.Phase == Preparing:
		op = PreparePod
	case p.Phase == Unmounting && len(p.coming) == 0:
		op = UnmountPod
	default:
		return Nothing, again
	}
	if p.failure != nil && p.failure.due.After(now) {
		return Nothing, p.failure.due
	}
	return op, again
}

// Begin notes that a call begins: the mount of a volume, or, without one, a call for the pod as a whole.
func (p *Pod) Begin(v *Volume, c Call) {
	at := &p.call
	if v != nil {
		at = &v.call
	}
	if *at != 0 || c == 0 || v != nil && !p.Brings() {
		panic("volumeplan: a call begins during another one, or while the pod is " + p.Phase.String())
	}
	*at = c
	switch {
	case v == nil:
	case v.State.There():
		v.State = VolumeRewriting
	default:
		v.State = VolumeMounting
	}
}

// Ended notes that a call has ended, and reports whether it is the one that goes on. Then Mounted, Prepared or Fail say
// how, unless the pod is taken down. Others are late, or of an earlier incarnation of the actor: what they did is found
// by the one that is made next.
func (p *Pod) Ended(v *Volume, c Call) bool {
	delete(p.coming, c)
	if v != nil {
		return v.ended(c)
	}
	if p.call != c {
		return false
	}
	p.call = 0
	return true
}

func (v *Volume) ended(c Call) bool {
	if v.call != c || c == 0 {
		return false
	}
	if v.call, v.Walk = 0, (csi.Walk{}); v.State.There() {
		v.State = VolumeUp
	} else {
		v.State = VolumeWaiting
	}
	return true
}

// Prepared notes that PreparePod has worked.
func (p *Pod) Prepared() {
	if p.Phase == Preparing {
		p.drop(&p.failure)
		p.Phase = Bringing
		p.settle()
	}
}

// TakeDown notes that nothing of the pod runs any more. withCSI: there is an actor for CSI volumes, which is to be
// asked to release them while the pod is Releasing. It reports whether this is new.
func (p *Pod) TakeDown(withCSI bool) bool {
	p.toldPending = true
	if p.Down() {
		return false
	}
	p.failures, p.failure = nil, nil
	for i := range p.Volumes {
		v := &p.Volumes[i]
		if v.failure = nil; v.State == VolumeFailed {
			v.State = VolumeWaiting
		}
	}
	if p.Phase = Unmounting; withCSI {
		p.Phase = Releasing
	}
	return true
}

// GiveUp notes which calls go on while the pod is taken down. Of those that were given up, true ones were dropped: they
// say nothing any more.
func (p *Pod) GiveUp(coming, dropped map[Call]bool) {
	p.coming = coming
	if len(dropped) == 0 {
		return
	}
	if dropped[p.call] {
		p.call = 0
	}
	for i := range p.Volumes {
		if v := &p.Volumes[i]; dropped[v.call] {
			v.ended(v.call)
		}
	}
}

// Released notes that nothing of the pod is published any more.
func (p *Pod) Released() {
	if p.Phase == Releasing {
		p.drop(&p.failure)
		p.Phase = Unmounting
	}
}

// Has reports whether the pod has a PersistentVolume of access mode ReadWriteOncePod, or is being given it.
func (p *Pod) Has(name string) bool {
	for i := range p.Volumes {
		if v := &p.Volumes[i]; (v.State.There() || v.State.Calls()) && v.Alone() == name {
			return true
		}
	}
	return false
}

// Freed has volumes tried again at once that another pod had otherwise, and reports whether there are some.
func (p *Pod) Freed() (some bool) {
	for _, f := range p.failures {
		if f.conflict {
			f.due, some = time.Time{}, true
		}
	}
	return some
}

// Moved has volumes tried again that the labels of the Node kept away before, and reports whether there are some.
func (p *Pod) Moved(before, now *v1.Node) (some bool) {
	for i := range p.Volumes {
		v := &p.Volumes[i]
		if !v.State.There() && Barred(v.Persistent, before) != Barred(v.Persistent, now) {
			p.mend(v)
			some = true
		}
	}
	return some
}

// Cause is why something failed. Text is what users are told of it. Conflict: another pod has it otherwise, with
// another SELinux label or for itself alone.
type Cause struct {
	Err      error
	Text     string
	Conflict bool
}

// Event is what users are told in an event.
type Event struct{ Reason, Message string }

// Fail notes why a call has failed that has just ended, or why a volume is refused. v is nil for the pod as a whole. It
// returns when it is tried again.
func (p *Pod) Fail(v *Volume, c Cause, now time.Time, b backoff.Policy) (Event, time.Time) {
	if v == nil {
		f := p.failed(&p.failure, c.Text, now, b)
		return Event{p.reason(), f.Message}, f.due
	}
	var missing []string
	if v.Unprocessed {
		missing = p.missing()
	}
	f := p.failed(&v.failure, v.Failed(c.Err, c.Text, missing), now, b)
	f.conflict = c.Conflict || errors.Is(c.Err, ErrTaken)
	if !v.State.There() {
		v.State = VolumeFailed
	}
	return Event{v.Reason(c.Err), f.Message}, f.due
}

// CSIFailed notes what csi says has failed: for a volume, or, without one, for the release of all. csi tries again.
func (p *Pod) CSIFailed(v *Volume, message string, now time.Time, b backoff.Policy) Event {
	if v == nil {
		p.failed(&p.failure, message, now, b)
		return Event{p.reason(), message}
	}
	if p.failed(&v.failure, message, now, b); !v.State.There() && !v.State.Calls() {
		v.State = VolumeAtCSI
	}
	return Event{v.Reason(nil), message}
}

// ReleaseWaits notes what the release of CSI volumes waits for.
func (p *Pod) ReleaseWaits(text string) { p.releaseWaits = text }

func (p *Pod) reason() string {
	if p.Down() {
		return "FailedUnMount"
	}
	return "FailedMount"
}

func (p *Pod) failed(at **Failure, message string, now time.Time, b backoff.Policy) *Failure {
	f := *at
	if f == nil {
		f = &Failure{}
		*at = f
		p.list(f)
	}
	f.Count++
	f.Message, f.due = message, now.Add(backoff.Retry(b, f.Count))
	return f
}

// list adds a failure to those of the pod.
func (p *Pod) list(f *Failure) {
	if f != nil {
		f.place = len(p.failures)
		p.failures = append(p.failures, f)
	}
}

// drop forgets a failure. The pod was told of it.
func (p *Pod) drop(at **Failure) {
	f := *at
	if f == nil {
		return
	}
	last := len(p.failures) - 1
	p.failures[f.place] = p.failures[last]
	p.failures[f.place].place = f.place
	if p.failures[last], p.failures = nil, p.failures[:last]; last == 0 {
		p.failures = nil
	}
	*at, p.toldPending = nil, false
}
