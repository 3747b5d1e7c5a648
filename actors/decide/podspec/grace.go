package podspec

import (
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
)

// DefaultGraceSeconds is the default terminationGracePeriodSeconds.
const DefaultGraceSeconds int64 = v1.DefaultTerminationGracePeriodSeconds

// maxSeconds is the maximum of Seconds, about 68 years. Users write larger values for "never"
// (terminationGracePeriodSeconds has 64 bits). Sums with them would overflow: in durations here,
// and in the seconds of some runtimes.
const maxSeconds = math.MaxInt32

// Seconds converts seconds of the API to a duration that is safe to add. Negative seconds count as
// 0.
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

// DeletionGrace is the grace period of a pod's deletion, or else its own.
func DeletionGrace(pod *v1.Pod) time.Duration {
	if s := pod.DeletionGracePeriodSeconds; s != nil {
		return Seconds(*s)
	}
	return Grace(pod)
}
