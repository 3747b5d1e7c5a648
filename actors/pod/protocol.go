// Package pod is the actor of one pod on one node: it owns the pod's lifecycle, its containers,
// backoff, hooks and status. After every message it asks podplan what to do and podstatus what
// users see. This package only performs.
//
//	podset ──Assign──► pod ──effects──► runtime      pod ──Ask, Report, Finished──► podset
//	pleg ──(pods, podset)──RuntimeHint, RuntimeSeen──► pod ──EnsureImage, Forget──► images ──ImageAnswer──► pod
//	                                           pod ──Mount, Unmount──► volumes ──VolumesAnswer──► pod
//	                                           pod ──NeedObjects, ForgetObjects──► apiobjects ──ObjectsAnswer──► pod
//	                              pod ──EnsureCgroup, RemoveCgroup──► cgroups ──CgroupAnswer──► pod
//	                              pod ──PrepareClaims, ReleaseClaims──► claims ──ClaimsAnswer──► pod
//
// After a restart it knows nothing. It asks podset for its assignment, reads its pod from the
// runtime, inherits its predecessor's lanes, and continues.
package pod

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/gate"
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
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// Message is what a pod actor understands.
//
//sumtype:decl
type Message interface{ isPodMessage() }

// Assign is the desired state of the pod. From podset: when the actor was made, in answer to
// Ask, and on every change. Lost: the pod stays as it is until the next. Late or twice: the
// newest counts, and a stop is never taken back.
type Assign struct {
	Pod *v1.Pod
	// Origin is the source of the pod.
	Origin podspec.Origin
	// Rank is the pod's place in the order of starts: older ones first.
	Rank int64
	// Stop is set when the pod is to end.
	Stop *podlife.Stop
	// View is the runtime's state of the pod, if podset knows it for certain: at the agent's start,
	// and for a new pod. Nil: inspect it.
	View *observed.Pod
	// Status is the last report of an earlier incarnation; nil if there was none.
	Status *v1.PodStatus
	// Resized is nil for a pod that was never resized. Otherwise Pod has the allocated resources,
	// whatever its spec asks for.
	Resized *Resized
	// FirstSandbox is not 0 for a pod that is wanted again after it was stopped: containers in
	// sandboxes of lower attempts belong to its earlier life.
	FirstSandbox uint32
	// RestartNotes holds, by container name, the notes of containers that are stopped to be
	// restarted. It is shared and never changed.
	RestartNotes map[string]podlife.RestartNote
	// Placement is where the containers run; nil for anywhere, or while that is not known.
	Placement *cpus.Placement
	// Machine has changed since the agent started; nil: it has not. It is shared and never changed.
	Machine *Machine
}

// Machine is what pods show of their machine.
type Machine struct {
	// HostIPs are the node's addresses, the first one first. Allocatable is what it has for pods.
	HostIPs     []string
	Allocatable v1.ResourceList
}

// Resized is the state of the pod's resize.
type Resized struct {
	// Generation is that of the spec whose resources were allocated last.
	Generation int64
	// Pending is a resize that was not granted, nil for none.
	Pending *podresize.Pending
	// Undecided: see podplan.Resize.
	Undecided bool
}

// Renewed is a newer version of the pod that changes nothing for it. From podset, so that the older
// version can be freed. Lost, late or twice: harmless.
type Renewed struct{ Pod *v1.Pod }

// RuntimeHint says that something happened to a container or sandbox. From pods, which relays
// pleg. Lost: the next relist finds it. Late or twice: known state is not inspected again.
type RuntimeHint struct {
	ID   string
	Kind observed.EventKind
}

// RuntimeSeen is this pod in a relist that began at Listed. From podset, which relays pleg. It is
// compared and never adopted, because it may be older than this actor's last action. Lost: the
// next one finds it.
type RuntimeSeen struct {
	View   observed.Pod
	Listed time.Time
}

// ImageAnswer is the state of a container's image. From images, in answer to EnsureImage and on
// every change after. Lost: the container waits until the images actor retries or this one
// restarts.
type ImageAnswer struct {
	Container string
	Image     imagepull.Status
	// Info is the runtime's record of the image, nil until it is ready. It is shared and never
	// changed.
	Info *observed.Image
}

// VolumesAnswer is the state of the volumes. From volumes, in answer to Mount and Unmount and on
// every change after. Paths are on the host, by volume name.
type VolumesAnswer struct {
	Volumes volumeplan.Volumes
	Paths   smallmap.Map[string, string]
}

// ObjectsAnswer is the known state of the API objects that the pod uses. From apiobjects, in answer
// to NeedObjects and on every change after. Lost: asked again when objects restarted. Late or
// twice: the newest counts.
type ObjectsAnswer struct{ Objects podobjects.Set }

// CgroupAnswer is the state of the pod's cgroup. From cgroups, in answer to EnsureCgroup and
// RemoveCgroup and on every change after. Lost: asked again when resources restarted.
type CgroupAnswer struct{ Cgroup podcgroup.Cgroup }

// ClaimsAnswer is the state of the pod's ResourceClaims. From claims, in answer to PrepareClaims and ReleaseClaims and
// on every change after. Lost: asked again when claims restarted.
type ClaimsAnswer struct{ Claims *claims.Pod }

// Probed is the current probe result of one container. From probes, on every change and in answer
// to ProbeContainers with Wait. Lost: asked again when probes restarted. Late or twice: the
// newest counts, and results of a removed container are ignored.
type Probed struct {
	ID     string
	Health probe.Health
}

// ActionDone is the result of an effect of this actor or its predecessor. An unknown ID makes the
// actor inspect the pod.
type ActionDone struct {
	ID     kernel.EffectID
	Action podplan.Effect
	// Err is nil for success; a port.Error of kind Deadline if the effect ran
	// out of time.
	Err error
	// Note is what people should see of it, nil for nothing.
	Note *podplan.Note
	// Result is the effect's result.
	podplan.Result
}

// Noted says that the checkpoint has the container's restart note, or cannot have it. From podset,
// in answer to NoteRestart. Lost: the container runs on until podset sends Repeat.
type Noted struct{ Container, ID string }

// Wake is this actor's own timer, set to the plan's next time.
type Wake struct{}

func (Assign) isPodMessage()        {}
func (Renewed) isPodMessage()       {}
func (RuntimeHint) isPodMessage()   {}
func (RuntimeSeen) isPodMessage()   {}
func (ImageAnswer) isPodMessage()   {}
func (VolumesAnswer) isPodMessage() {}
func (ObjectsAnswer) isPodMessage() {}
func (CgroupAnswer) isPodMessage()  {}
func (ClaimsAnswer) isPodMessage()  {}
func (Probed) isPodMessage()        {}
func (Noted) isPodMessage()         {}
func (ActionDone) isPodMessage()    {}
func (Wake) isPodMessage()          {}

// MailboxKey implements kernel.Keyed: only the newest relist counts.
func (RuntimeSeen) MailboxKey() string { return "seen" }

// MailboxKey implements kernel.Keyed: each message has the whole state.
func (ObjectsAnswer) MailboxKey() string { return "objects" }

// MailboxKey implements kernel.Keyed.
func (m Probed) MailboxKey() string { return m.ID }

// Outcome implements kernel.Outcome.
func (m ActionDone) Outcome() (kernel.EffectID, error) { return m.ID, m.Err }

// Ask asks podset for the assignment. Each incarnation but the first sends it at its start.
type Ask struct{ UID types.UID }

// Report is sent to podset whenever the pod's status changed.
type Report struct {
	UID types.UID
	// FirstSandbox is that of the Assign. A report of an earlier life of the pod is dropped.
	FirstSandbox uint32
	// Status is shared, and never changed.
	Status *v1.PodStatus
	// Life is the pod's lifecycle state.
	Life string
	// Trouble is what blocks the pod, if the status does not show it.
	Trouble string
	// Down: nothing of the pod runs any more, and its claims are released, but it may still have mounts. Other pods may
	// have its resources.
	Down bool
	// Gates are, by container name, those that the messages of waiting containers in Status are of.
	Gates smallmap.Map[string, gate.Gate]
	// Resists: the pod is to end, and the runtime fails to stop a container or sandbox of it, or a driver to release a
	// claim.
	Resists bool
}

// Finished is sent to podset when nothing of the pod runs or is mounted.
type Finished struct {
	UID types.UID
	// FirstSandbox is that of the Assign. NextSandbox would be that of another life of the pod.
	FirstSandbox, NextSandbox uint32
}

// NoteRestart asks podset to save that a container is stopped to be restarted. Noted answers it.
type NoteRestart struct {
	UID       types.UID
	Container string
	Note      podlife.RestartNote
}

// InPlace is sent to podset when all running containers run where the placement with this number says.
type InPlace struct {
	UID    types.UID
	Number uint64
}

// EnsureImage is sent to images. It is repeated while the image is missing and the state of the
// pod's pull secrets changes.
type EnsureImage struct {
	Pod *v1.Pod
	Ask imagepull.Request
	// Secrets is what the pull secrets of the pod have for the image. It is found by the pod's own actor, because others
	// wait for images. Nil is nothing known yet.
	Secrets *imagepull.Fit
	ReplyTo kernel.Ref[Message]
}

// MountVolumes asks volumes for all of the pod's volumes. Until UnmountVolumes, it is repeated
// whenever their objects change.
type MountVolumes struct {
	Pod *v1.Pod
	// Objects has their known state; some may be Unknown yet.
	Objects podobjects.Set
	// Later: the pod already runs with them, so starts of other pods come first.
	Later bool
	// Paths are where the pod knows volumes to be, by name: those of the last answer, shared and never changed. They are
	// there also after a restart of volumes.
	Paths   smallmap.Map[string, string]
	ReplyTo kernel.Ref[Message]
}

// UnmountVolumes asks volumes to unmount all of the pod's volumes.
type UnmountVolumes struct {
	UID     types.UID
	Pod     *v1.Pod
	ReplyTo kernel.Ref[Message]
}

// NeedObjects tells apiobjects that the pod uses all objects that its spec names. It is sent as soon
// as the pod should run, and again when the spec names others.
type NeedObjects struct {
	Pod *v1.Pod
	// Known is the state that this actor has already.
	Known   podobjects.Set
	ReplyTo kernel.Ref[Message]
}

// ForgetObjects is sent to apiobjects when nothing of the pod runs.
type ForgetObjects struct{ UID types.UID }

// EnsureCgroup tells cgroups that the pod is here and, with Make, to make its cgroup. The
// cgroup of a running pod is left as it is.
type EnsureCgroup struct {
	Pod     *v1.Pod
	Make    bool
	ReplyTo kernel.Ref[Message]
}

// RemoveCgroup tells cgroups that the pod is gone from this node.
type RemoveCgroup struct {
	UID     types.UID
	ReplyTo kernel.Ref[Message]
}

// PrepareClaims asks claims which devices the pod's ResourceClaims give to its containers and, with Make, to have
// drivers prepare them first: the pod has no sandbox yet.
type PrepareClaims struct {
	Pod     *v1.Pod
	Make    bool
	ReplyTo kernel.Ref[Message]
}

// ReleaseClaims tells claims that nothing of the pod runs.
type ReleaseClaims struct {
	UID     types.UID
	ReplyTo kernel.Ref[Message]
}

// ProbeContainers is sent to probes when the pod's probed containers change. It lists all of
// them, or none. Only the newest container of a name is probed.
type ProbeContainers struct {
	Pod *v1.Pod
	// Host is the pod's address, empty while it has none.
	Host       string
	Containers []ProbedContainer
	ReplyTo    kernel.Ref[Message]
}

// ProbedContainer is a running container with probes.
type ProbedContainer struct {
	Name, ID string
	// StartedAt is zero if it is unknown.
	StartedAt time.Time
	// Stopping: it is being stopped.
	Stopping bool
	// Known is the health from probes or from the pod's status.
	Known probe.Health
	// Wait: the health is unknown, and the pod's report waits for an answer.
	Wait bool
}

// AskAgain is from podset: an actor that this one has requests at restarted and lost them. Twice:
// asked twice, which is harmless.
type AskAgain struct{}

// Repeat is from podset, which missed messages or restarted: report everything again. Twice: reported twice,
// which is harmless.
type Repeat struct{}

// RuntimeBack says that the runtime answers again. From pods, which relays pleg. Lost: failed
// calls are retried at the end of their backoff. Twice: retried twice.
type RuntimeBack struct{}

func (AskAgain) isPodMessage()    {}
func (Repeat) isPodMessage()      {}
func (RuntimeBack) isPodMessage() {}
