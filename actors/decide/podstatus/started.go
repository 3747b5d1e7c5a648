package podstatus

import v1 "k8s.io/api/core/v1"

// Started says whether the last main container started for the first time between two statuses of a
// pod. It is false without an earlier status.
func Started(before, after *v1.PodStatus) bool {
	return before != nil && after != nil && !allStarted(before) && allStarted(after)
}

// allStarted stays true once it is: a container that no longer runs has ended.
func allStarted(s *v1.PodStatus) bool {
	for i := range s.ContainerStatuses {
		c := &s.ContainerStatuses[i]
		if c.State.Running == nil && c.State.Terminated == nil && c.LastTerminationState.Terminated == nil &&
			c.RestartCount == 0 {
			return false
		}
	}
	return len(s.ContainerStatuses) > 0
}
