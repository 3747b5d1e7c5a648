package podspec

import (
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
)

// DefaultGraceSeconds is the terminationGracePeriodSeconds of a pod that says none.
const DefaultGraceSeconds int64 = v1.DefaultTerminationGracePeriodSeconds

// maxSeconds is the most that Seconds gives, some 68 years. Users write far more
// for "never" (terminationGracePeriodSeconds has 64 bits), and sums with more than
// this overflow: in durations here, and in the seconds of some runtimes.
const maxSeconds = math.MaxInt32

// Seconds turns a number of seconds of the API into a duration that can be added
// to others. A negative one counts as 0.
func Seconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), maxSeconds)) * time.Second
}

// Grace is a pod's terminationGracePeriodSeconds, the API's default if it isn't set.
func Grace(pod *v1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return Seconds(*s)
	}
	return Seconds(DefaultGraceSeconds)
}

// DeletionGrace is the grace period that a pod is deleted with: that of the
// deletion, or else its own.
func DeletionGrace(pod *v1.Pod) time.Duration {
	if s := pod.DeletionGracePeriodSeconds; s != nil {
		return Seconds(*s)
	}
	return Grace(pod)
}
