package podstatus

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Backwards says in which way next takes back what prev said; empty if it doesn't. It is the
// invariant of statuses, for tests and for the checkers of a simulation.
func Backwards(pod *v1.Pod, prev, next *v1.PodStatus) string {
	if podspec.Terminal(prev.Phase) && next.Phase != prev.Phase {
		return fmt.Sprintf("the phase was %s, now it is %s", prev.Phase, next.Phase)
	}
	if prev.Phase == v1.PodRunning && next.Phase == v1.PodPending && !StartsOver(pod, next.ContainerStatuses) {
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
	if why := leftTerminated(pod, prev, next); why != "" {
		return why
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
			if a.LastTerminationState.Terminated != nil && b.LastTerminationState.Terminated == nil &&
				b.State.Terminated == nil {
				return fmt.Sprintf("last state of %s is gone", a.Name)
			}
			if a.State.Terminated != nil && b.State.Terminated == nil && b.LastTerminationState.Terminated == nil {
				return fmt.Sprintf("the end of %s is gone", a.Name)
			}
			if a.State.Running != nil && b.State.Running == nil && b.State.Terminated == nil &&
				b.LastTerminationState.Terminated == nil {
				return fmt.Sprintf("container %s ran, now nobody knows of it", a.Name)
			}
			if a.State.Terminated != nil && a.ContainerID == b.ContainerID && b.State.Running != nil && a.ContainerID != "" {
				return fmt.Sprintf("container %s came back to life", a.Name)
			}
		}
	}
	return ""
}

// leftTerminated names a main container that prev shows as terminated and next does not, although
// its restart policy does not restart it. The apiserver rejects such a status. (Init containers
// may: they run again in another sandbox.)
func leftTerminated(pod *v1.Pod, prev, next *v1.PodStatus) string {
	for i := range pod.Spec.Containers {
		spec := &pod.Spec.Containers[i]
		a, b := find(prev.ContainerStatuses, spec.Name), find(next.ContainerStatuses, spec.Name)
		if a == nil || b == nil || a.State.Terminated == nil || b.State.Terminated != nil {
			continue
		}
		if !podspec.MayLeaveTerminated(pod, spec, a.State.Terminated.ExitCode) {
			return fmt.Sprintf("container %s was terminated with %d, which is not restarted, and no longer is", spec.Name,
				a.State.Terminated.ExitCode)
		}
	}
	return ""
}
