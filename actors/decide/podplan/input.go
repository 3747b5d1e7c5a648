// Package podplan decides what to do next for one pod: desired pod + what the
// runtime shows + what is under way + now → actions, and when to look again.
//
// It is called after every message that changes any of its inputs, and must be
// cheap and idempotent: called twice with the same input it gives the same
// plan, and an action that is under way (Busy) is never planned again.
package podplan

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/flat"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
)

// Input is everything a plan may look at.
type Input struct {
	Now time.Time
	// Pod is what is wanted, with the API's defaults set. Never mutated.
	Pod *v1.Pod
	// Origin is where it comes from. The spec of an orphan holds names only: what
	// stopping it takes was written down at each of its containers.
	Origin podspec.Origin
	// Life is where the pod stands.
	Life podlife.State
	// Stop is why and how a pod that is not Syncing is taken down; nil while Syncing.
	Stop *podlife.Stop

	// Known is false until the runtime was asked once what it has of this pod,
	// and again after a call whose outcome is unknown: nothing may be made,
	// started or declared gone before the answer.
	Known bool
	// View is what the runtime shows, sorted.
	View observed.Pod

	// Busy are the actions under way, those of an earlier incarnation of the
	// actor included.
	Busy flat.Map[Lane, Action]
	// Failures are the failures since the last success, by lane.
	Failures map[Lane]Failure
	// Images are by container name; those of volumes by VolumeImage.
	Images flat.Map[string, imagepull.Image]
	// Volumes of the pod.
	Volumes volumeplan.Volumes
	// Objects is what is known of the objects that the pod uses; nil if there are
	// none to wait for.
	Objects *podobjects.Set
	// Cgroup of the pod.
	Cgroup podcgroup.Cgroup
	// Resize is nil for a pod that was never resized: all of it is as it was made.
	Resize *Resize
	// HostsFile: a container finds the pod's address in its /etc/hosts, which is
	// written when the sandbox is inspected, and is started only after that.
	HostsFile bool
	// Hooks are by container ID.
	Hooks map[string]Hooks
	// Health is what probes said, by container ID. A container with no entry
	// has no probe that counts: started when it runs, ready, alive.
	Health map[string]probe.Health
	// KillAt is, by container ID, when the outstanding stop call with the
	// shortest grace will kill it.
	KillAt map[string]time.Time
	// Stopped is, by container ID, when a StopContainer of it last succeeded. It
	// is kept while the container is the newest of its name: it tells a stale
	// view from a stop that did not work, and lets a container whose state is
	// Unknown count as dead.
	Stopped map[string]time.Time
	// RestartNotes are, by container name, those that are stopped to be restarted.
	RestartNotes map[string]podlife.RestartNote
	// FirstSandbox is not 0 for a pod that is wanted again after it had been
	// stopped because nobody wanted it: the attempt that its next sandbox had then.
	// What is in a sandbox before that one is of its earlier life: it counts as never
	// run, and only its restart count is carried on.
	FirstSandbox uint32
	// SandboxStopped holds the IDs of sandboxes for which a StopSandbox
	// succeeded: their network is free. Lost with the actor, which is harmless:
	// it is done once more.
	SandboxStopped map[string]bool
	// StartTime is the pod's status.startTime, zero if not known yet; then the
	// creation of its oldest sandbox stands for it.
	StartTime time.Time
	// Crash is what the backoff remembers, by container name; the plan returns
	// the next value in Output.Crash.
	Crash map[string]backoff.Crash

	// CrashPolicy is the node's crash-loop backoff.
	CrashPolicy backoff.Policy
	// RetryPolicy is the backoff after a failed action.
	RetryPolicy backoff.Policy
}

// Resize is what a pod was given of the node instead of what it was made with, and
// what is known of how far that got. Its spec is what it was given.
type Resize struct {
	// Generation is that of the spec which asked for it.
	Generation int64
	// Was: the last status says that it is in progress, or knows nothing of it yet.
	Was bool
	// Pending is a later resize that it was not given, nil for none.
	Pending *podresize.Pending
	// Undecided: the pod asks for something else, and whether it is given that is yet
	// to be decided, or to be written down. Until then its generation is not
	// acknowledged.
	Undecided bool
	// Pod and Containers are the limits that the pod's cgroup and its containers, by
	// name, are to have.
	Pod        observed.Resources
	Containers map[string]observed.Resources
	// Seen is what was read of the pod's cgroup and of memory in use; nil for nothing.
	Seen *podresize.Seen
	// Given are the limits that a container was given last, by ID: what a runtime
	// says afterwards may be rounded.
	Given map[string]observed.Resources
}

// Resizing is how far the resize of a pod is.
type Resizing struct {
	// InProgress: something has not the limits yet that it is to have.
	InProgress bool
	// Problem is why not, empty if nothing is in the way.
	Problem string
}

// Failure is the last failure on a lane, and how many in a row there were.
type Failure struct {
	Count int
	// Refusals is how many of them the far side answered. Of the others nobody
	// knows whether they worked, or may yet.
	Refusals int
	// Unanswered says that the last of them was none: the runtime did not answer.
	Unanswered bool
	At         time.Time
	// Reason is what kubectl shows as the waiting reason:
	// CreateContainerConfigError, CreateContainerError, RunContainerError,
	// CreatePodSandboxError, PostStartHookError, …
	Reason  string
	Message string
}

// HookState is how far a hook got.
type HookState uint8

const (
	HookNotRun HookState = iota
	HookRunning
	HookDone
	HookFailed
	// HookEnded: it was ended because its container is to go. Only of postStart:
	// the container has not started, and never will.
	HookEnded
)

// Hooks of one container incarnation. An actor that adopts a running container
// sets PostStart to HookDone: it ran, or its failure was acted on.
type Hooks struct {
	PostStart HookState
	PreStop   HookState
	// PreStopAt is when the preStop hook began; what it took is part of the grace. An
	// actor that inherits one under way knows it of the effect.
	PreStopAt time.Time
	// Message of a failure.
	Message string
}

// Waiting is why a container does not run.
type Waiting struct {
	Reason  string // ContainerCreating, PodInitializing, CrashLoopBackOff, …
	Message string
}

// Outcome is what a plan found out about the pod as a whole.
type Outcome uint8

const (
	// GoOn: nothing to conclude.
	GoOn Outcome = iota
	// Done: by its restart policy the pod has finished; take down what still
	// runs (sidecars, the sandbox). See Output.Stop.
	Done
	// AllDown: a pod that is Terminating has nothing left that runs or is mounted.
	AllDown
)

// Output is a plan.
type Output struct {
	// Actions to begin now, in this order, each on a lane that is free.
	Actions []Action
	// Wake is when to plan again if nothing happens before; zero for never.
	Wake time.Time
	// Waiting is, by container name, why those that do not run do not.
	Waiting flat.Map[string, Waiting]
	// Crash is the next value of Input.Crash.
	Crash map[string]backoff.Crash
	// Epoch is the last exit that asks for all containers of the pod to be
	// restarted (KEP-5532), zero if there is none: what was made before it is of
	// an earlier life of the pod, and is followed by another however it ended.
	Epoch time.Time
	// Resizing is how far the limits of a pod with Input.Resize are.
	Resizing Resizing
	// EndHooks are the containers, by ID, whose hook under way is to be ended: they
	// are dead, or they are to go and their postStart hook still runs.
	EndHooks []string
	// Outcome, and how to stop if it is Done.
	Outcome Outcome
	Stop    *podlife.Stop
	// Notes are the events that this plan gives rise to, at most one a cause
	// (a BackOff is noted once per crash, not once per plan).
	Notes []Note
}

// Note is something that users should see as an Event.
type Note struct {
	Warning   bool
	Reason    string // BackOff, Killing, SandboxChanged, …
	Container string // empty for the pod
	Message   string
}
