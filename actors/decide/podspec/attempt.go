package podspec

import v1 "k8s.io/api/core/v1"

// StatusUnknown is the reason of a termination of which nothing is known: the container no longer
// exists in the runtime.
const StatusUnknown = "ContainerStatusUnknown"

// NextAttempt is the number of the incarnation after the one that a status shows. The restart count of a
// status is that of the shown incarnation, but where it was lost while it ran: the restart that follows is
// counted at once.
func NextAttempt(s *v1.ContainerStatus) uint32 {
	count := uint32(max(s.RestartCount, 0))
	last := s.LastTerminationState.Terminated
	if count > 0 && s.State.Waiting != nil && last != nil && last.Reason == StatusUnknown {
		return count
	}
	return count + 1
}
