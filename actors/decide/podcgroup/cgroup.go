package podcgroup

// Cgroup is the last answer of the resources actor about a pod's cgroup.
type Cgroup struct {
	// Own says that pods have cgroups of their own on this node.
	Own   bool
	State State
	// Removed: the actor has reported that the cgroup is gone. Going: it was asked to remove the
	// cgroup and has not done so yet.
	Removed, Going bool
	// Message of a failure.
	Message string
}

// State is the state of a pod's cgroup.
type State uint8

const (
	Down    State = iota // not asked
	Known                // the pod is known; its cgroup was not checked
	Pending              // being made
	Up
	Failed // being retried by the resources actor
)

// String is the state as a word.
func (s State) String() string { return [...]string{"down", "known", "pending", "up", "failed"}[s] }
