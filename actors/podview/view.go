package podview

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/manifest"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/whynot"
)

// View is what people are shown of the pods of a node: `troupe pods`, the admin
// endpoint. It is a value of its own; nobody changes it.
type View struct {
	Node string `json:"node"`
	// Ready is true once every source was seen and the runtime was listed.
	Ready bool `json:"ready"`
	// WaitingFor says what is missing while it is not.
	WaitingFor []string `json:"waitingFor,omitempty"`
	// Runtime is set while the runtime does not answer. This actor does not know
	// it: the agent fills it in.
	Runtime  *Runtime           `json:"runtime,omitempty"`
	Pods     []Pod              `json:"pods"`
	Problems []manifest.Problem `json:"problems,omitempty"`
}

// Runtime is a runtime that does not answer: since when, and what came
// instead of an answer.
type Runtime struct {
	Since   time.Time `json:"since"`
	Message string    `json:"message"`
}

// Pod is one pod.
type Pod struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Source is file, http or api; orphan for one that nobody wants any more.
	Source podspec.Origin `json:"source"`
	// Life is Syncing, Terminating, Terminated; Rejected; Waiting (not begun).
	Life string `json:"life"`
	// Phase is the pod's; Unknown of one that ran before this agent did and has yet
	// to be looked at.
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
	// Why is why the pod is not ready, nil if it is. This actor does not say it:
	// the agent fills it in.
	Why *whynot.Answer `json:"why,omitempty"`
	// Problem says what is wrong with the pod's actor, or what keeps the pod from
	// going on or from ending, if its status does not show it.
	Problem    string      `json:"problem,omitempty"`
	Containers []Container `json:"containers"`
	// Doing are the actions under way.
	Doing []string `json:"doing,omitempty"`
}

// Container is one container, in the order of the spec, init containers first.
type Container struct {
	Name string `json:"name"`
	// Kind is init, sidecar, main or ephemeral.
	Kind string `json:"kind"`
	// ID is that of the runtime, with its scheme (containerd://…).
	ID string `json:"id,omitempty"`
	// State is waiting, running or terminated.
	State      string     `json:"state"`
	Ready      bool       `json:"ready"`
	Restarts   int32      `json:"restarts"`
	Reason     string     `json:"reason,omitempty"`
	Message    string     `json:"message,omitempty"`
	ExitCode   *int32     `json:"exitCode,omitempty"`
	StartedAt  *time.Time `json:"startedAt,omitempty"`
	FinishedAt *time.Time `json:"finishedAt,omitempty"`
	Image      string     `json:"image"`
	// Last is how the incarnation before this one ended, or the newest one if
	// the container waits to be restarted.
	Last *End `json:"last,omitempty"`
}

// End is how an incarnation of a container ended.
type End struct {
	Reason     string     `json:"reason,omitempty"`
	Message    string     `json:"message,omitempty"`
	ExitCode   int32      `json:"exitCode"`
	FinishedAt *time.Time `json:"finishedAt,omitempty"`
}
