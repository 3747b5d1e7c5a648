// Package imagepull decides whether an image has to be pulled, and when again
// after that failed.
package imagepull

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
)

// Reasons that users know a container to wait for its image by.
const (
	ErrImagePull      = "ErrImagePull"
	ImagePullBackOff  = "ImagePullBackOff"
	ErrImageNeverPull = "ErrImageNeverPull"
	InvalidImageName  = "InvalidImageName"
	ImageInspectError = "ImageInspectError"
)

// Decision is what to do about one image.
type Decision uint8

const (
	Pull Decision = iota
	UsePresent
	NeverPresent // not there, and it must not be pulled
)

func (d Decision) String() string {
	return [...]string{"Pull", "UsePresent", "NeverPresent"}[d]
}

// Decide says whether an image is pulled, by its pull policy (API field
// imagePullPolicy) and whether it is there. An empty policy is the default one
// of the image's name.
func Decide(policy v1.PullPolicy, image string, present bool) Decision {
	if policy == "" {
		policy = DefaultPolicy(image)
	}
	switch {
	case policy == v1.PullAlways:
		return Pull
	case present:
		return UsePresent
	case policy == v1.PullNever:
		return NeverPresent
	default:
		return Pull
	}
}

// DefaultPolicy is the policy of a container that gives none: Always if the tag of its image is latest, or
// if the image has neither tag nor digest; else IfNotPresent (container field imagePullPolicy). An image
// that cannot be parsed is for the validation to refuse.
func DefaultPolicy(image string) v1.PullPolicy {
	r, err := Parse(image)
	if err == nil && (r.Tag == "latest" || r.Tag == "" && r.Digest == "") {
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}

// Failures is what is remembered of an image's failed pulls. The zero value is
// an image that never failed; a success makes it that again.
//
//	zero ──failed──► ErrImagePull ──Shown──► ImagePullBackOff ──RetryAt──► (pull) ─┐
//	  ▲                   ▲                                                        │
//	  └──── success ──────┴───────────────────── failed ◄──────────────────────────┘
type Failures struct {
	Count int
	At    time.Time
	// Reason and Message are of the last failure.
	Reason, Message string
}

// DefaultBackoff is 10 s, doubled up to 300 s.
func DefaultBackoff() backoff.Policy {
	return backoff.Policy{Base: 10 * time.Second, Max: 300 * time.Second}
}

// LookBackoff is when to look again after the runtime did not say whether it has
// an image: 1 s, doubled up to 10 s. That is the runtime's trouble and not the
// image's, and is over when the runtime answers.
func LookBackoff() backoff.Policy {
	return backoff.Policy{Base: time.Second, Max: 10 * time.Second}
}

// shown is for how long ErrImagePull is shown before ImagePullBackOff is.
const shown = time.Second

// Failed counts one more failure.
func (f Failures) Failed(reason, message string, now time.Time) Failures {
	if reason == "" {
		reason = ErrImagePull
	}
	return Failures{Count: f.Count + 1, At: now, Reason: reason, Message: message}
}

// RetryAt is when to pull again; zero, at once, if nothing failed.
func (f Failures) RetryAt(p backoff.Policy) time.Time {
	if f.Count == 0 {
		return time.Time{}
	}
	return f.At.Add(backoff.Retry(p, f.Count))
}

// Status is why a container waits for image now, in the words that users know,
// and when that changes by itself; both empty if nothing failed.
func (f Failures) Status(p backoff.Policy, image string, now time.Time) (reason, message string, until time.Time) {
	if f.Count == 0 {
		return "", "", time.Time{}
	}
	retry := f.RetryAt(p)
	if turn := f.At.Add(min(shown, backoff.Retry(p, f.Count)/2)); now.Before(turn) || !now.Before(retry) {
		return f.Reason, f.Message, turn
	}
	return ImagePullBackOff, fmt.Sprintf("%s: %s: %s", BackOffMessage(image), f.Reason, f.Message), retry
}

// BackOffMessage is the text of the BackOff event.
func BackOffMessage(image string) string { return fmt.Sprintf("Back-off pulling image %q", image) }

// NeverPresentMessage says why a container with policy Never has no image.
func NeverPresentMessage(image string) string {
	return fmt.Sprintf("Container image %q is not present with pull policy of Never", image)
}

// InvalidNameMessage says why a name can't be pulled.
func InvalidNameMessage(image string, err error) string {
	return fmt.Sprintf("Failed to apply default image tag %q: %v", image, err)
}
