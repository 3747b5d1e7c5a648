package imagecache

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
)

// Load is how busy the pulls of a node are.
type Load struct {
	// Wished is when a pod wanted an image last, or when nothing was known of that yet.
	Wished time.Time
	// Busy: a pod waits for an image, or one is pulled for it.
	Busy bool
	// Free: a pull may begin without another one having to wait for its turn (registryPullQPS).
	Free bool
}

// Answer is what came of a step. Why is its error, empty for none; Down: the runtime did not answer.
type Answer struct {
	Do    Do
	Load  Load
	There bool // the image, with its ID
	ID    string
	Disk  eviction.Left
	End   End
	Why   string
	Down  bool
}

// End is how a request for the pull of an image has ended.
type End struct {
	Outcome Outcome
	// ID is that of the image, if it was Pulled, and Took how long that took.
	ID   string
	Took time.Duration
	// Why is the error of a pull that Failed. Down: because the runtime does not answer.
	Why  string
	Down bool
}

// Outcome is what became of a request.
type Outcome uint8

// The outcomes of a request.
const (
	Pulled Outcome = iota
	Failed
	GaveWay // to pods, or did not begin because of them
	Stopped // as it was asked to
)

func (o Outcome) String() string { return [...]string{"Pulled", "Failed", "GaveWay", "Stopped"}[o] }
