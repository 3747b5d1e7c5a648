package podview

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/gate"
	"github.com/troupe-dev/troupe/actors/decide/manifest"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/whynot"
)

// View shows the pods of a node to people: `troupe pods`, the admin endpoint. It shares nothing
// and is never changed.
type View struct {
	Node string `json:"node"`
	// Ready is true once every source was seen and the runtime was listed.
	Ready bool `json:"ready"`
	// WaitingFor lists what is missing while Ready is false.
	WaitingFor []string `json:"waitingFor,omitempty"`
	// Runtime is set while the runtime does not answer. The agent sets it, not this actor.
	Runtime  *Runtime           `json:"runtime,omitempty"`
	Pods     []Pod              `json:"pods"`
	Problems []manifest.Problem `json:"problems,omitempty"`
	// Mirrors is how many mirror pods the apiserver has, or is to have: for metrics.
	Mirrors int `json:"-"`
}

// Runtime is a runtime that does not answer: since when, and the last error.
type Runtime struct {
	Since   time.Time `json:"since"`
	Message string    `json:"message"`
}

// Pod is one pod.
type Pod struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Source is file, http or api; orphan for a pod that no source wants.
	Source podspec.Origin `json:"source"`
	// Removed: no source has it any more: for metrics.
	Removed bool `json:"-"`
	// Life is Syncing, Terminating, Terminated; Rejected; Waiting (not begun).
	Life string `json:"life"`
	// Phase is the pod's; Unknown for a pod from before this agent that is not inspected yet.
	Phase string `json:"phase"`
	// Ready is the condition of that name.
	Ready     bool       `json:"ready"`
	Restarts  int32      `json:"restarts"`
	IP        string     `json:"ip,omitempty"`
	StartTime *time.Time `json:"startTime,omitempty"`
	// Reason and Message are the pod's; of a rejected pod, why.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Unready is the message of the condition Ready, if it is not.
	Unready string `json:"unready,omitempty"`
	// Why is why the pod is not ready, nil if it is. The agent sets it, not this actor.
	Why *whynot.Answer `json:"why,omitempty"`
	// Problem is what is wrong with the pod's actor, or what blocks the pod, if its status does
	// not show it.
	Problem    string      `json:"problem,omitempty"`
	Containers []Container `json:"containers"`
	// Doing are the running actions.
	Doing []string `json:"doing,omitempty"`
	// ResizePending is why a resize is not allocated (Deferred, Infeasible), empty if none waits. Resizing: one is
	// allocated, and not done.
	ResizePending string `json:"resizePending,omitempty"`
	Resizing      bool   `json:"resizing,omitempty"`
	Priority      *int32 `json:"priority,omitempty"`
}

// Container is one container, in the order of the spec, init containers first.
type Container struct {
	Name string `json:"name"`
	// Kind is init, sidecar, main or ephemeral.
	Kind string `json:"kind"`
	// ID is that of the runtime, with its scheme (containerd://…).
	ID string `json:"id,omitempty"`
	// State is waiting, running or terminated.
	State    string `json:"state"`
	Ready    bool   `json:"ready"`
	Restarts int32  `json:"restarts"`
	Reason   string `json:"reason,omitempty"`
	Message  string `json:"message,omitempty"`
	// Gate is the one that Reason and Message are of, while it is waiting: for Pod.Why.
	Gate       gate.Gate  `json:"-"`
	ExitCode   *int32     `json:"exitCode,omitempty"`
	StartedAt  *time.Time `json:"startedAt,omitempty"`
	FinishedAt *time.Time `json:"finishedAt,omitempty"`
	Image      string     `json:"image"`
	// Last is how the previous incarnation ended, or the newest one if the container waits to be
	// restarted.
	Last *End `json:"last,omitempty"`
}

// End is how an incarnation of a container ended.
type End struct {
	Reason     string     `json:"reason,omitempty"`
	Message    string     `json:"message,omitempty"`
	ExitCode   int32      `json:"exitCode"`
	FinishedAt *time.Time `json:"finishedAt,omitempty"`
}
