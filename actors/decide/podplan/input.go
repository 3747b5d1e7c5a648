// Package podplan decides what to do next for one pod. It turns desired state, the runtime's view,
// actions under way and the time into actions, and says when to plan again.
//
//	Facts ──► Plan ──► actions ─┬─► Request: another actor is asked ── its answers ─► Facts
//	                            └─► Effect: a call is made ── success, failure ─────► Facts
//
// It is called after every message that changes an input, so it must be cheap and idempotent. The
// same input gives the same plan, and an action that is under way (Busy) is never planned again.
package podplan

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/gate"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// Input is everything a plan may look at.
type Input struct {
	Now time.Time
	// Pod is the desired state, with the API's defaults set. Never mutated.
	Pod *v1.Pod
	// Origin is the pod's source. The spec of an orphan holds only names: how to stop each container
	// was recorded when it was made.
	Origin podspec.Origin
	// Life is the state of the pod's life.
	Life podlife.State
	// Stop is why and how a pod that is not Syncing is taken down; nil while Syncing.
	Stop *podlife.Stop

	// Facts are what is known about the pod.
	Facts

	// Status is the last status of this life of the pod; nil if there was none, or none was kept. It
	// counts where the runtime no longer has a record of a container.
	Status *v1.PodStatus

	// Objects is what is known of the objects that the pod uses; nil if there are none to wait for.
	Objects *podobjects.Set
	// Resize is nil for a pod that was never resized.
	Resize *Resize
	// Placement is where the containers run; nil for anywhere.
	Placement *cpus.Placement
	// UsesClaims: the pod has ResourceClaims, which the claims actor prepares.
	UsesClaims bool
	// HostsFile: containers need the pod's address in /etc/hosts. The file is written when the sandbox
	// is inspected, so they are started only after that.
	HostsFile bool
	// FirstSandbox is not 0 if the pod was stopped because it was not wanted, and is wanted again now.
	// It is the attempt that the next sandbox had then. What is in older sandboxes counts as never
	// run; only its restart count is carried on.
	FirstSandbox uint32
	// StartTime is the pod's status.startTime. If it is zero, the creation time of the oldest sandbox
	// stands for it.
	StartTime time.Time
	// CrashPolicy is the node's crash-loop backoff.
	CrashPolicy backoff.Policy
	// RetryPolicy is the backoff after a failed action.
	RetryPolicy backoff.Policy
}

// Resize is what a pod was allocated instead of its original resources, and how far the change got.
// Its spec holds the allocation.
type Resize struct {
	// Generation is that of the spec that asked for the resize.
	Generation int64
	// Was: the last status says that the resize is in progress, or does not mention it yet.
	Was bool
	// Pending is a later resize that is not allocated; nil for none.
	Pending *podresize.Pending
	// Undecided: the pod asks for other resources, and the decision is not made or not written down
	// yet. Until then its generation is not acknowledged.
	Undecided bool
	// Pod and Containers are the desired limits of the pod's cgroup and of its containers, by name.
	Pod        observed.Resources
	Containers map[string]observed.Resources
}

// Resizing is how far the resize of a pod got.
type Resizing struct {
	// InProgress: something does not have its desired limits yet.
	InProgress bool
	// Problem is what blocks the resize; empty if nothing does.
	Problem string
}

// Waiting is why a container does not run.
type Waiting struct {
	Reason  string // ContainerCreating, PodInitializing, CrashLoopBackOff, …
	Message string
	// Gate is the one that the reason or the message is of. If the reason is the default one and there is no message,
	// it is one of those that are shut.
	Gate gate.Gate
}

// Outcome is what a plan concludes about the pod as a whole.
type Outcome uint8

const (
	// GoOn: nothing to conclude.
	GoOn Outcome = iota
	// Done: by its restart policy the pod has finished. What still runs (sidecars, the sandbox) is
	// taken down. See Output.Stop.
	Done
	// AllDown: nothing of a Terminating pod runs or is mounted any longer.
	AllDown
)

// Output is a plan.
type Output struct {
	// Actions to begin now, in this order, each on a lane that is free.
	Actions []Action
	// Wake is when to plan again if nothing happens before; zero for never.
	Wake time.Time
	// Waiting is, by container name, why a container does not run.
	Waiting smallmap.Map[string, Waiting]
	// Crash is the next value of Input.Crash.
	Crash map[string]backoff.Crash
	// Overdue is the next value of Input.Overdue.
	Overdue Overdue
	// Epoch is the last exit that asks to restart all containers of the pod (KEP-5532), zero if there
	// is none. What was made before it belongs to an earlier life of the pod, and is followed by
	// another incarnation however it ended.
	Epoch time.Time
	// Resizing is how far the resize of a pod with Input.Resize got.
	Resizing Resizing
	// InPlace: every container runs where Input.Placement says, if it runs.
	InPlace bool
	// EndHooks are the IDs of containers whose running hook must be ended: the container is dead, or
	// it must stop and its postStart hook still runs.
	EndHooks []string
	// Outcome, and how to stop if it is Done.
	Outcome Outcome
	Stop    *podlife.Stop
	// Notes are the events of this plan, at most one per cause (one BackOff per crash, not per plan).
	Notes []Note
}

// Note is something that users should see as an Event.
type Note struct {
	Warning   bool
	Reason    string // BackOff, Killing, SandboxChanged, …
	Container string // empty for the pod
	Message   string
}
