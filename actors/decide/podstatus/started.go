package podstatus

import v1 "k8s.io/api/core/v1"

// Started says whether the last main container started for the first time between two statuses of a
// pod. It is false without an earlier status.
func Started(before, after *v1.PodStatus) bool {
	return before != nil && after != nil && !allStarted(before) && allStarted(after)
}

// allStarted stays true once it is.
func allStarted(s *v1.PodStatus) bool {
	for i := range s.ContainerStatuses {
		if !started(&s.ContainerStatuses[i]) {
			return false
		}
	}
	return len(s.ContainerStatuses) > 0
}

// started says whether a status shows that the container was ever started. It stays true once it is: a
// container that no longer runs has ended.
func started(c *v1.ContainerStatus) bool {
	return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil ||
		c.RestartCount > 0
}
