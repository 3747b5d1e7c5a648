package podstatus

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podplan"
)

// Backwards says in which way next says less than prev, empty if it doesn't:
// this is the invariant of statuses, for tests and for checkers that run with
// a simulation.
func Backwards(pod *v1.Pod, prev, next *v1.PodStatus) string {
	if terminal(prev.Phase) && next.Phase != prev.Phase {
		return fmt.Sprintf("the phase was %s, now it is %s", prev.Phase, next.Phase)
	}
	// A pod with init containers begins anew with them in another sandbox.
	if prev.Phase == v1.PodRunning && next.Phase == v1.PodPending && len(pod.Spec.InitContainers) == 0 && !hasRestartAll(pod) {
		return "the phase was Running, now it is Pending"
	}
	if prev.StartTime != nil && (next.StartTime == nil || !prev.StartTime.Equal(next.StartTime)) {
		return "the start time changed"
	}
	if next.ObservedGeneration < prev.ObservedGeneration {
		return "the observed generation fell"
	}
	if prev.PodIP != "" && next.PodIP == "" {
		return "the pod's address is gone"
	}
	for _, lists := range [...][2][]v1.ContainerStatus{
		{prev.InitContainerStatuses, next.InitContainerStatuses},
		{prev.ContainerStatuses, next.ContainerStatuses},
		{prev.EphemeralContainerStatuses, next.EphemeralContainerStatuses},
	} {
		for i := range lists[0] {
			a := &lists[0][i]
			b := find(lists[1], a.Name)
			if b == nil {
				return fmt.Sprintf("container %s is gone", a.Name)
			}
			if b.RestartCount < a.RestartCount {
				return fmt.Sprintf("restart count of %s fell from %d to %d", a.Name, a.RestartCount, b.RestartCount)
			}
			if a.LastTerminationState.Terminated != nil && b.LastTerminationState.Terminated == nil && b.State.Terminated == nil {
				return fmt.Sprintf("last state of %s is gone", a.Name)
			}
			if a.State.Terminated != nil && b.State.Terminated == nil && b.LastTerminationState.Terminated == nil {
				return fmt.Sprintf("the end of %s is gone", a.Name)
			}
			if a.State.Running != nil && b.State.Running == nil && b.State.Terminated == nil && b.LastTerminationState.Terminated == nil {
				return fmt.Sprintf("container %s ran, now nobody knows of it", a.Name)
			}
			if a.State.Terminated != nil && a.ContainerID == b.ContainerID && b.State.Running != nil && a.ContainerID != "" {
				return fmt.Sprintf("container %s came back to life", a.Name)
			}
		}
	}
	return ""
}

func hasRestartAll(pod *v1.Pod) bool {
	for _, list := range [...][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if podplan.RestartsAll(&list[i]) {
				return true
			}
		}
	}
	return false
}
