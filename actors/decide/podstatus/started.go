package podstatus

import v1 "k8s.io/api/core/v1"

// Started says whether, between two statuses of a pod, the last of its main
// containers was started for the first time. Nothing is known of a pod of which
// there was no status before.
func Started(before, after *v1.PodStatus) bool {
	return before != nil && after != nil && !allStarted(before) && allStarted(after)
}

// allStarted stays true once it is: a container that runs no more has ended.
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
