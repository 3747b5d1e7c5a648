package imagepull

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Request asks for the image of a container, by its pull policy, for the incarnation with this
// attempt number.
type Request struct {
	Container string // or VolumeImage
	Image     string
	Policy    v1.PullPolicy
	Attempt   uint32
	// Ahead: the container waits for others, and its image is pulled meanwhile. Users are told nothing of that, and what
	// fails does not delay the pull when it is the container's turn, which is a request of its own.
	Ahead bool
}

// VolumeImage names the image of a volume where otherwise a container is named. No container has
// such a name.
func VolumeImage(volume string) string { return volumeImage + volume }

const volumeImage = "volume/"

// OfVolume is the volume of a VolumeImage; ok is false for the name of a container.
func OfVolume(name string) (volume string, ok bool) { return strings.CutPrefix(name, volumeImage) }

// State is the progress of a container's image.
type State uint8

const (
	Unknown State = iota // not asked
	Pending              // asked; being looked up or pulled
	Ready
	Failed // the images actor tries again by itself at RetryAt
)

// String is the state as a word.
func (s State) String() string { return [...]string{"unknown", "pending", "ready", "failed"}[s] }

// Status is the image of one container.
type Status struct {
	State State
	// Attempt is the incarnation that it was requested for. With pull policy Always, an answer for an
	// earlier one does not count.
	Attempt uint32
	// Image is the requested name: the spec's image may change.
	Image string
	// Ahead is that of the request.
	Ahead bool
	Ref   string
	// Reason and Message of a failure: ErrImagePull, ImagePullBackOff,
	// ErrImageNeverPull, InvalidImageName, …
	Reason, Message string
}
