// Package pod is the actor of one pod on one node: it owns the pod's lifecycle,
// its containers, backoff, hooks and status. What to do it asks podplan, after
// every message; what users see it asks podstatus. This package only performs.
//
//	pods ──Assign──► pod ──effects──► runtime      pod ──Ask, Report, Finished──► pods
//	pleg ──(pods)──RuntimeHint, RuntimeSeen──► pod ──EnsureImage──► images ──ImageAnswer──► pod
//	                                           pod ──Mount, Unmount──► volumes ──VolumesAnswer──► pod
//	                                           pod ──NeedObjects, ForgetObjects──► objects ──ObjectsAnswer──► pod
//	                              pod ──EnsureCgroup, RemoveCgroup──► resources ──CgroupAnswer──► pod
//
// After a restart it knows nothing: it asks pods for its assignment, reads its
// pod from the runtime, inherits the lanes of its predecessor, and goes on.
package pod

import (
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/flat"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// Message is what a pod actor understands.
//
//sumtype:decl
type Message interface{ isPodMessage() }

// Assign is what this actor is for. From pods, when it has made the actor, in
// answer to Ask, and whenever it changes. Lost: the pod stays as it is until the next. Late or twice: the
// newest counts, and a stop is never taken back.
type Assign struct {
	Pod *v1.Pod
	// Origin is where it comes from.
	Origin podspec.Origin
	// Rank is the pod's place in the order of starts: older ones first.
	Rank int64
	// Stop is set when the pod is to end.
	Stop *podlife.Stop
	// View is what the runtime has of the pod, if pods knows it for certain: at
	// the agent's start, and for a pod that is new. Nil: look yourself.
	View *observed.Pod
	// Status is what an earlier incarnation last reported; nil if there was none.
	Status *v1.PodStatus
	// Resized is nil for a pod that was never resized. Pod then has what it was
	// given of the node, whatever it asks for.
	Resized *Resized
	// FirstSandbox is not 0 for a pod that is wanted again after it was stopped:
	// what was made in sandboxes of lower attempts is of its earlier life.
	FirstSandbox uint32
	// RestartNotes is, by container name, what pods knows of those that are stopped
	// to be restarted. It is shared, and never changed.
	RestartNotes map[string]podlife.RestartNote
}

// Resized is what there is to know of the resize of a pod.
type Resized struct {
	// Generation is that of the spec that asked for what the pod was given last.
	Generation int64
	// Pending is a resize that it was not given, nil for none.
	Pending *podresize.Pending
	// Undecided: see podplan.Resize.
	Undecided bool
}

// Renewed is a newer version of the pod that asks nothing else of it. From pods,
// so that nobody keeps the older one. Lost, late or twice: as if it had not come.
type Renewed struct{ Pod *v1.Pod }

// RuntimeHint says that something happened to a container or sandbox. From
// pods, which has it of pleg. Lost: the next relist finds it. Late or twice:
// what is known already is not looked at again.
type RuntimeHint struct {
	ID   string
	Kind observed.EventKind
}

// RuntimeSeen is what a relist, begun at Listed, saw of this pod. From pods,
// which has it of pleg. It is compared, never taken over: it may be older than
// what this actor did since. Lost: the next one finds it.
type RuntimeSeen struct {
	View   observed.Pod
	Listed time.Time
}

// ImageAnswer says how far the image of a container is. From images, in answer
// to EnsureImage and on every change after. Lost: the container waits until
// the images actor retries or this one restarts.
type ImageAnswer struct {
	Container string
	Image     imagepull.Image
	// Info is what the runtime knows of the image, nil until it is ready. It is
	// shared, and never changed.
	Info *observed.Image
}

// VolumesAnswer says how far the volumes are. From volumes, in answer to Mount
// and Unmount and on every change after. Paths are on the host, by volume name.
type VolumesAnswer struct {
	Volumes volumeplan.Volumes
	Paths   flat.Map[string, string]
}

// ObjectsAnswer says what is known of the objects of the API that the pod uses.
// From objects, in answer to NeedObjects and on every change after. Lost: asked
// for again when told that objects restarted. Late or twice: the newest counts.
type ObjectsAnswer struct{ Objects podobjects.Set }

// CgroupAnswer says how far the pod's cgroup is. From resources, in answer to
// EnsureCgroup and RemoveCgroup and on every change after. Lost: asked for again
// when told that resources restarted.
type CgroupAnswer struct{ Cgroup podcgroup.Cgroup }

// Probed is what the probes of one container say now. From probes, whenever that
// changes, and in answer to ProbeContainers where that asks for it. Lost: asked
// for again when told that probes restarted. Late or twice: the newest counts,
// and a container that is gone has none.
type Probed struct {
	ID     string
	Health probe.Health
}

// ActionDone is the result of an effect of this actor, or of its predecessor.
// An ID that nobody waits for makes the actor look again.
type ActionDone struct {
	ID     kernel.EffectID
	Action podplan.Effect
	// Err is nil for success; a port.Error of kind Deadline if the effect ran
	// out of time.
	Err error
	// Result is what the effect gave.
	podplan.Result
}

// Noted says that it is written down, or can't be, that a container is stopped to
// be restarted. From pods, in answer to NoteRestart. Lost: the container runs on
// until pods asks everybody to repeat.
type Noted struct{ Container, ID string }

// Wake is this actor's own timer: the plan said when to look again.
type Wake struct{}

func (Assign) isPodMessage()        {}
func (Renewed) isPodMessage()       {}
func (RuntimeHint) isPodMessage()   {}
func (RuntimeSeen) isPodMessage()   {}
func (ImageAnswer) isPodMessage()   {}
func (VolumesAnswer) isPodMessage() {}
func (ObjectsAnswer) isPodMessage() {}
func (CgroupAnswer) isPodMessage()  {}
func (Probed) isPodMessage()        {}
func (Noted) isPodMessage()         {}
func (ActionDone) isPodMessage()    {}
func (Wake) isPodMessage()          {}

// MailboxKey implements kernel.Keyed: of several relists only the newest counts.
func (RuntimeSeen) MailboxKey() string { return "seen" }

// MailboxKey implements kernel.Keyed: it is all that is known.
func (ObjectsAnswer) MailboxKey() string { return "objects" }

// AppendTrace implements kernel.Traced.
func (m ObjectsAnswer) AppendTrace(b []byte) []byte {
	for _, e := range m.Objects.Entries() {
		b = append(append(append(b, e.Ref.String()...), byte(e.State)), e.Message...)
		if o, ok := e.Object.(metav1.Object); ok {
			b = append(b, o.GetResourceVersion()...)
		}
	}
	return b
}

// MailboxKey implements kernel.Keyed.
func (m Probed) MailboxKey() string { return m.ID }

// Outcome implements kernel.Outcome.
func (m ActionDone) Outcome() (kernel.EffectID, error) { return m.ID, m.Err }

// AppendTrace implements kernel.Traced.
func (m Probed) AppendTrace(b []byte) []byte {
	return append(append(b, byte(m.Health.Startup), byte(m.Health.Liveness), byte(m.Health.Readiness)), m.ID...)
}

// AppendTrace implements kernel.Traced.
func (m RuntimeHint) AppendTrace(b []byte) []byte {
	return append(append(b, byte(m.Kind)), m.ID...)
}

// AppendTrace implements kernel.Traced.
func (m ActionDone) AppendTrace(b []byte) []byte {
	b = strconv.AppendUint(b, uint64(m.ID), 10)
	b = append(append(b, 0), m.NewID...)
	if m.Err != nil {
		b = append(append(b, 0), m.Err.Error()...)
	}
	return b
}

// AppendTrace implements kernel.Traced.
func (m ImageAnswer) AppendTrace(b []byte) []byte {
	b = append(append(b, m.Container...), byte(m.Image.State))
	return append(b, m.Image.Ref...)
}

// Ask is sent to pods by each incarnation but the first as it starts.
type Ask struct{ UID types.UID }

// Report is sent to pods whenever the pod's status changed.
type Report struct {
	UID types.UID
	// FirstSandbox is that of the Assign that it is about: of an earlier life of the
	// pod it is too late.
	FirstSandbox uint32
	// Status is shared, and never changed.
	Status *v1.PodStatus
	// Life is where the pod stands.
	Life string
	// Trouble is what keeps the pod from going on, if the status does not show it.
	Trouble string
}

// Finished is sent to pods when nothing of the pod runs or is mounted.
type Finished struct {
	UID types.UID
	// FirstSandbox is that of the Assign that it is about. NextSandbox is what it
	// would be for another life of the pod.
	FirstSandbox, NextSandbox uint32
}

// NoteRestart asks pods to write down that a container is stopped to be restarted.
// It is answered by Noted.
type NoteRestart struct {
	UID       types.UID
	Container string
	Note      podlife.RestartNote
}

// EnsureImage is sent to images, and again as long as the image is not there and
// something else is known of the pod's pull secrets.
type EnsureImage struct {
	Pod *v1.Pod
	Ask imagepull.Request
	// Objects has what is known of the secrets that the pod pulls with.
	Objects podobjects.Set
	ReplyTo kernel.Ref[Message]
}

// MountVolumes is sent to volumes: all of the pod's. It is sent again, until
// UnmountVolumes, whenever something else is known of the objects that they are
// made of.
type MountVolumes struct {
	Pod *v1.Pod
	// Objects is what is known of them; some may be Unknown yet.
	Objects podobjects.Set
	// Later: the pod runs with them already, and what has to be started comes first.
	Later   bool
	ReplyTo kernel.Ref[Message]
}

// UnmountVolumes is sent to volumes: all of the pod's.
type UnmountVolumes struct {
	UID     types.UID
	Pod     *v1.Pod
	ReplyTo kernel.Ref[Message]
}

// NeedObjects is sent to objects: whatever the pod's spec names is used by it. It
// is sent as soon as the pod is to run, and again when it names others.
type NeedObjects struct {
	Pod *v1.Pod
	// Known is what this actor knows already.
	Known   podobjects.Set
	ReplyTo kernel.Ref[Message]
}

// ForgetObjects is sent to objects when nothing of the pod runs any more.
type ForgetObjects struct{ UID types.UID }

// EnsureCgroup is sent to resources: that the pod is here and, with Make, that
// its cgroup is to be made. One of a pod that runs already is left as it is.
type EnsureCgroup struct {
	Pod     *v1.Pod
	Make    bool
	ReplyTo kernel.Ref[Message]
}

// RemoveCgroup is sent to resources: the pod is no more here.
type RemoveCgroup struct {
	UID     types.UID
	ReplyTo kernel.Ref[Message]
}

// ProbeContainers is sent to probes whenever what is to be probed of this pod
// changes: all of it, or nothing any more. Only the newest of a name are probed.
type ProbeContainers struct {
	Pod *v1.Pod
	// Host is the pod's address, empty while it has none.
	Host       string
	Containers []ProbedContainer
	ReplyTo    kernel.Ref[Message]
}

// ProbedContainer is a container that has probes and runs.
type ProbedContainer struct {
	Name, ID string
	// StartedAt is when, as far as it is known.
	StartedAt time.Time
	// Stopping: it is being stopped.
	Stopping bool
	// Known is what this actor knows of it: from probes, or from the pod's status.
	Known probe.Health
	// Wait: nothing is known of it. An answer is waited for, whatever it is.
	Wait bool
}

// AskAgain is from pods: an actor that this one has wishes at restarted and
// knows nothing of them. Twice: asked twice, which is harmless.
type AskAgain struct{}

// Repeat is from pods, which missed messages: all that it was told is to be said
// again. Twice: said twice, which is harmless.
type Repeat struct{}

// RuntimeBack says that the runtime answers again after it did not. From pods,
// which has it of pleg. Lost: what failed is tried again at the end of its
// backoff. Twice: tried twice.
type RuntimeBack struct{}

func (AskAgain) isPodMessage()    {}
func (Repeat) isPodMessage()      {}
func (RuntimeBack) isPodMessage() {}
