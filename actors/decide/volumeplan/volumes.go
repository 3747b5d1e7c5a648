package volumeplan

// Volumes is the last answer of the volumes actor about the pod's volumes.
type Volumes struct {
	State State
	// Unmounted is true once UnmountVolumes was answered: nothing of this pod is mounted. State Down
	// does not say that, because a restarted actor has not asked yet.
	Unmounted bool
	// Going is true from asking for UnmountVolumes until the answer is Unmounted. A change of State in
	// between (pending, failed, retried) does not reset it: the plan asks once, not at every answer.
	Going bool
	// Message says which volume failed, or has been pending for long.
	Message string
}

// State is the state of a pod's volumes.
type State uint8

const (
	Down    State = iota // not asked, or unmounted
	Pending              // asked, not all mounted
	Up
	Failed // being retried by the volumes actor
)

// String is the state as a word.
func (s State) String() string { return [...]string{"down", "pending", "up", "failed"}[s] }
