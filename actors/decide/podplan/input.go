// Package podplan decides what to do next for one pod: desired pod + what the
// runtime shows + what is under way + now → actions, and when to look again.
//
//	Facts ──► Plan ──► actions ─┬─► Request: another actor is asked ── its answers ─► Facts
//	                            └─► Effect: a call is made ── success, failure ─────► Facts
//
// It is called after every message that changes any of its inputs, and must be
// cheap and idempotent: called twice with the same input it gives the same
// plan, and an action that is under way (Busy) is never planned again.
package podplan

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/flat"
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

	// Facts are what is known of the pod.
	Facts

	// Objects is what is known of the objects that the pod uses; nil if there are
	// none to wait for.
	Objects *podobjects.Set
	// Resize is nil for a pod that was never resized: all of it is as it was made.
	Resize *Resize
	// HostsFile: a container finds the pod's address in its /etc/hosts, which is
	// written when the sandbox is inspected, and is started only after that.
	HostsFile bool
	// FirstSandbox is not 0 for a pod that is wanted again after it had been
	// stopped because nobody wanted it: the attempt that its next sandbox had then.
	// What is in a sandbox before that one is of its earlier life: it counts as never
	// run, and only its restart count is carried on.
	FirstSandbox uint32
	// StartTime is the pod's status.startTime, zero if not known yet; then the
	// creation of its oldest sandbox stands for it.
	StartTime time.Time
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
}

// Resizing is how far the resize of a pod is.
type Resizing struct {
	// InProgress: something has not the limits yet that it is to have.
	InProgress bool
	// Problem is why not, empty if nothing is in the way.
	Problem string
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
