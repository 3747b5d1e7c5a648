package volumeplan

// Volumes is what the volumes actor said of the pod's volumes.
type Volumes struct {
	State State
	// Unmounted is true once UnmountVolumes was answered: nothing of this pod is
	// mounted. Down alone doesn't say that: an actor that was restarted
	// has not asked yet.
	Unmounted bool
	// Going is true from when UnmountVolumes was asked until it is answered with
	// Unmounted. Whoever sets State in between (pending, failed, being tried
	// again) leaves it set: the plan asks once, not at every answer.
	Going bool
	// Message says which volume failed, or has been waited for long.
	Message string
}

// State is whether the volumes of a pod stand.
type State uint8

const (
	Down    State = iota // not asked, or taken down
	Pending              // asked, not all there
	Up
	Failed // being retried by the volumes actor
)
