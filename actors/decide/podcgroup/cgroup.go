package podcgroup

// Cgroup is what the resources actor said of the pod's cgroup.
type Cgroup struct {
	// Own says that pods have cgroups of their own on this node.
	Own   bool
	State State
	// Removed is true once the actor has said that the cgroup is gone. Going is true
	// from when it was asked to remove it until then.
	Removed, Going bool
	// Message of a failure.
	Message string
}

// State is whether the cgroup of a pod stands.
type State uint8

const (
	Down    State = iota // not asked
	Known                // the pod is told of; nobody looked at its cgroup
	Pending              // being made
	Up
	Failed // being retried by the resources actor
)
