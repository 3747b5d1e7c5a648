package statuswrite

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
)

// Merge is the status that object is to get when this node has want to say of
// it, and whether that differs from what it has. Nothing that the apiserver
// acknowledged is taken back (see podstatus.Backwards): whoever computed want
// may have forgotten it. What others own stays as it is. It shares memory with
// both.
func Merge(object *v1.Pod, want *v1.PodStatus) (v1.PodStatus, bool) {
	have, out := &object.Status, *want
	switch {
	case podspec.Terminal(have.Phase) && want.Phase != have.Phase:
		out.Phase, out.Reason, out.Message = have.Phase, have.Reason, have.Message
	case have.Phase == v1.PodRunning && want.Phase == v1.PodPending:
		out.Phase = v1.PodRunning
	}
	if have.StartTime != nil {
		out.StartTime = have.StartTime
	}
	if have.QOSClass != "" {
		out.QOSClass = have.QOSClass // fixed when the pod was made
	}
	out.ObservedGeneration = max(want.ObservedGeneration, have.ObservedGeneration)
	if out.HostIP == "" {
		out.HostIP, out.HostIPs = have.HostIP, have.HostIPs
	}
	if out.PodIP == "" {
		out.PodIP, out.PodIPs = have.PodIP, have.PodIPs
	}
	out.InitContainerStatuses = containers(have.InitContainerStatuses, want.InitContainerStatuses)
	out.InitContainerStatuses = terminated(object, object.Spec.InitContainers, have.InitContainerStatuses,
		out.InitContainerStatuses)
	out.ContainerStatuses = containers(have.ContainerStatuses, want.ContainerStatuses)
	out.ContainerStatuses = terminated(object, object.Spec.Containers, have.ContainerStatuses, out.ContainerStatuses)
	out.EphemeralContainerStatuses = containers(have.EphemeralContainerStatuses, want.EphemeralContainerStatuses)
	out.Conditions = conditions(have, want)
	// Not this node's to decide.
	out.NominatedNodeName = have.NominatedNodeName
	out.ResourceClaimStatuses = have.ResourceClaimStatuses
	out.ExtendedResourceClaimStatus = have.ExtendedResourceClaimStatus
	out.NodeAllocatableResourceClaimStatuses = have.NodeAllocatableResourceClaimStatuses
	return out, !podstatus.Equal(have, &out)
}

// containers merges two lists of container statuses: want, with what it does
// not know of have.
func containers(have, want []v1.ContainerStatus) []v1.ContainerStatus {
	if len(have) == 0 {
		return want
	}
	out, own := want, false
	for i := range have {
		h := &have[i]
		j := len(out) - 1
		for j >= 0 && out[j].Name != h.Name {
			j--
		}
		if j >= 0 && !forgets(h, &out[j]) {
			continue
		}
		if !own {
			out, own = slices.Clone(want), true
		}
		if j < 0 {
			out = append(out, *h)
		} else {
			out[j] = remember(h, &out[j])
		}
	}
	return out
}

// terminated leaves containers as they are of which the apiserver would refuse that
// they are no longer terminated: init containers that run again in another sandbox,
// and what an agent without restart notes has written. It would refuse all else that
// the status says with them.
func terminated(pod *v1.Pod, specs []v1.Container, have, want []v1.ContainerStatus) []v1.ContainerStatus {
	out, own := want, false
	for i := range have {
		h := &have[i]
		if h.State.Terminated == nil {
			continue
		}
		j := slices.IndexFunc(out, func(w v1.ContainerStatus) bool { return w.Name == h.Name })
		s := slices.IndexFunc(specs, func(c v1.Container) bool { return c.Name == h.Name })
		if j < 0 || s < 0 || out[j].State.Terminated != nil ||
			podspec.MayLeaveTerminated(pod, &specs[s], h.State.Terminated.ExitCode) {
			continue
		}
		if !own {
			out, own = slices.Clone(want), true
		}
		out[j] = *h
	}
	return out
}

// forgets says whether w lacks something that h has.
func forgets(h, w *v1.ContainerStatus) bool {
	return w.RestartCount < h.RestartCount || lostSight(h, w) || revived(h, w) ||
		ended(h) && !ended(w)
}

// remember is w, with what it lacks of h.
func remember(h, w *v1.ContainerStatus) v1.ContainerStatus {
	out := *w
	if lostSight(h, w) || revived(h, w) {
		out = *h
		if w.Resources != nil { // what it has is said with the conditions of a resize
			out.Resources, out.AllocatedResources = w.Resources, w.AllocatedResources
		}
	}
	out.RestartCount = max(h.RestartCount, w.RestartCount)
	if ended(h) && !ended(&out) {
		out.LastTerminationState = h.LastTerminationState
		if h.State.Terminated != nil {
			out.LastTerminationState = h.State
		}
	}
	return out
}

// ended says whether any end of the container is known.
func ended(s *v1.ContainerStatus) bool {
	return s.State.Terminated != nil || s.LastTerminationState.Terminated != nil
}

// lostSight: the container ran or has ended, and w, which only says that it
// waits, knows nothing of it.
func lostSight(h, w *v1.ContainerStatus) bool {
	return (h.State.Running != nil || h.State.Terminated != nil) &&
		w.State.Running == nil && !ended(w)
}

// revived: the very container that has ended is shown as one that has not. w is
// older than h.
func revived(h, w *v1.ContainerStatus) bool {
	return h.State.Terminated != nil && h.ContainerID != "" && h.ContainerID == w.ContainerID &&
		w.State.Running != nil
}

// conditions puts this node's own in their place among those of others.
func conditions(object, status *v1.PodStatus) []v1.PodCondition {
	have, want := object.Conditions, status.Conditions
	out, own := have, false
	for i := range want {
		w := &want[i]
		j := len(out) - 1
		for j >= 0 && out[j].Type != w.Type {
			j--
		}
		mine := podstatus.Ours(w.Type)
		if j >= 0 && !mine {
			continue
		}
		if j < 0 && !mine && w.Type != v1.DisruptionTarget {
			continue // somebody took it away again
		}
		n := *w
		if j >= 0 {
			h := &out[j]
			if h.Status == w.Status {
				n.LastTransitionTime = h.LastTransitionTime
			}
			if n.Type != v1.PodResizePending && n.Type != v1.PodResizeInProgress {
				n.ObservedGeneration = max(h.ObservedGeneration, w.ObservedGeneration)
			}
			if n.LastProbeTime.IsZero() {
				n.LastProbeTime = h.LastProbeTime
			}
			if podstatus.EqualCondition(h, &n) {
				continue
			}
		}
		if !own {
			out, own = slices.Clone(have), true
		}
		if j >= 0 {
			out[j] = n
		} else {
			out = append(out, n)
		}
	}
	gone := func(c v1.PodCondition) bool {
		return (c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress) &&
			!slices.ContainsFunc(want, func(w v1.PodCondition) bool { return w.Type == c.Type })
	}
	if status.ObservedGeneration >= object.ObservedGeneration && slices.ContainsFunc(out, gone) {
		// These two are there only while they hold. What was computed of an older
		// generation does not know.
		out, own = slices.DeleteFunc(slices.Clone(out), gone), true
	}
	if own && sameConditions(out, want) {
		return want // shared: there are as many lists as pods
	}
	return out
}

// sameConditions says whether two lists say the same, in whatever order.
func sameConditions(a, b []v1.PodCondition) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !slices.ContainsFunc(b, func(c v1.PodCondition) bool { return podstatus.EqualCondition(&a[i], &c) }) {
			return false
		}
	}
	return true
}
