package imagepull

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
)

// Waiting reasons of a container that waits for its image.
const (
	ErrImagePull      = "ErrImagePull"
	ImagePullBackOff  = "ImagePullBackOff"
	ErrImageNeverPull = "ErrImageNeverPull"
	InvalidImageName  = "InvalidImageName"
	ImageInspectError = "ImageInspectError"
	// These two a runtime names itself: see PullFailure.
	RegistryUnavailable       = "RegistryUnavailable"
	SignatureValidationFailed = "SignatureValidationFailed"
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

// Decide says whether to pull an image, by its pull policy (API field imagePullPolicy) and whether
// it is present. An empty policy means the default for the image's name.
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

// DefaultPolicy is the pull policy of a container that sets none: Always if its image has the tag
// latest, or neither tag nor digest; else IfNotPresent (container field imagePullPolicy).
// Validation rejects an image name that cannot be parsed.
func DefaultPolicy(image string) v1.PullPolicy {
	r, err := ParseReference(image)
	if err == nil && (r.Tag == "latest" || r.Tag == "" && r.Digest == "") {
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}

// Failures is the record of a pod's failed pulls of an image. The zero value is no failure; a success resets
// it.
//
//	zero ──failed──► ErrImagePull ──Shown──► ImagePullBackOff ──RetryAt──► (pull) ─┐
//	  ▲                   ▲                                                        │
//	  └──── success ──────┴───────────────────── failed ◄──────────────────────────┘
type Failures struct {
	backoff.Failures
	// Reason is that of the last failure.
	Reason string
}

// DefaultBackoff is 10 s, doubled up to 300 s.
func DefaultBackoff() backoff.Policy {
	return backoff.Policy{Base: 10 * time.Second, Max: 300 * time.Second}
}

// LookBackoff is the delay before asking the runtime again for an image after it failed to answer:
// 1 s, doubled up to 10 s. That is a failure of the runtime and not of the image, so it ends when
// the runtime answers.
func LookBackoff() backoff.Policy {
	return backoff.Policy{Base: time.Second, Max: 10 * time.Second}
}

// shown is how long ErrImagePull is shown before ImagePullBackOff.
const shown = time.Second

// Failed counts one more failure.
func (f Failures) Failed(reason, message string, now time.Time) Failures {
	return Failures{f.Failures.Failed(now, message), reason}
}

// Status is the waiting reason and message of a container for image, and when they change by
// themselves; all empty without a failure.
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

// PullFailure is the waiting reason and message of a container whose image could not be pulled, by the error of the
// pull. The registry is unavailable, or a signature wrong, only if a runtime begins its error with that word
// (k8s.io/cri-api/pkg/errors): what else it writes is for people.
func PullFailure(image, text string) (reason, message string) {
	for _, of := range [...]struct{ reason, because string }{
		{RegistryUnavailable, "the registry is unavailable"},
		{SignatureValidationFailed, "the signature validation failed"},
	} {
		if rest, is := strings.CutPrefix(text, of.reason); is {
			return of.reason, fmt.Sprintf("image pull failed for %s because %s%s", image, of.because, rest)
		}
	}
	return ErrImagePull, text
}

// mostTexts is how many different errors of one pull are told, and mostBytes how long they may be, but for the first.
// It may have been tried with thousands of credentials, for each of thousands of containers.
const mostTexts, mostBytes = 32, 2048

// PullError is the error of a pull that was tried with several credentials, by what each got.
func PullError(texts []string) string {
	var out []string
	seen, left := map[string]bool{}, mostBytes
	for _, t := range texts {
		if seen[t] {
			continue
		}
		seen[t] = true
		if left -= len(t); len(out) == 0 || len(out) == len(seen)-1 && len(out) < mostTexts && left >= 0 {
			out = append(out, t)
		}
	}
	if len(out) == 1 {
		return out[0]
	}
	if more := len(seen) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// BackOffMessage is the text of the BackOff event.
func BackOffMessage(image string) string { return fmt.Sprintf("Back-off pulling image %q", image) }

// PulledMessage says that an image was pulled: how long the pull took, how long it was from the request, with the time
// in the queue, and the size in bytes. Programs read the three numbers in it, as a kubelet writes them.
func PulledMessage(image string, took, waited time.Duration, size uint64) string {
	return fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: %d bytes.", image,
		took.Truncate(time.Millisecond), waited.Truncate(time.Millisecond), size)
}

// PresentMessage says that an image was not pulled; verified: it is known that the pod may use it.
func PresentMessage(image string, verified bool) string {
	text := fmt.Sprintf("Container image %q already present on machine", image)
	if verified {
		text += " and can be accessed by the pod"
	}
	return text
}

// NeverPresentMessage says why a container with policy Never has no image.
func NeverPresentMessage(image string) string {
	return fmt.Sprintf("Container image %q is not present with pull policy of Never", image)
}

// InvalidNameMessage says why a name can't be pulled.
func InvalidNameMessage(image string, err error) string {
	return fmt.Sprintf("Failed to apply default image tag %q: %v", image, err)
}
