package podlife

// RestartCause is why a running container is stopped so that another
// incarnation takes its place.
type RestartCause string

const (
	ContainerChanged RestartCause = "ContainerChanged" // its image, in the spec
	ResizeRestarts   RestartCause = "ResizeRestarts"   // API field resizePolicy
	ProbeFailed      RestartCause = "ProbeFailed"      // liveness or startup
	PostStartFailed  RestartCause = "PostStartFailed"
	SandboxLost      RestartCause = "SandboxLost"
)

// RestartNote says that a container was, or is about to be, stopped in order to be restarted. It is
// restarted whatever its exit code, which only shows how it handled the stop signal.
//
// A note is written before the preStop hook and the stop signal, and survives the pod's actor and
// the agent. Without it, a container with restartPolicy OnFailure that exits with 0 would count as
// completed, and its pod as Succeeded, although its work was never done.
type RestartNote struct {
	// ID is the container's. A note about another incarnation does not count.
	ID    string       `json:"id"`
	Cause RestartCause `json:"cause"`
	// Written is true once the note is on disk, or can't be written. Only then is the container
	// stopped.
	Written bool `json:"-"`
}
