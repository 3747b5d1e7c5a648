package apipod

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// MergeStatus returns the status to write for object when this node computed want, and whether it differs
// from the object's. It never takes back what the apiserver acknowledged (see podstatus.Backwards),
// because want may lack it. Fields of other clients stay as they are. The result shares memory with
// object and want.
func MergeStatus(object *v1.Pod, want *v1.PodStatus) (v1.PodStatus, bool) {
	have, out := &object.Status, *want
	if podspec.Terminal(have.Phase) && want.Phase != have.Phase {
		out.Phase, out.Reason, out.Message = have.Phase, have.Reason, have.Message
	}
	if have.StartTime != nil {
		out.StartTime = have.StartTime
	}
	if have.QOSClass != "" {
		out.QOSClass = have.QOSClass // fixed when the pod was created
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
	if have.Phase == v1.PodRunning && want.Phase == v1.PodPending && !podstatus.StartsOver(object, out.ContainerStatuses) {
		out.Phase = v1.PodRunning
	}
	out.EphemeralContainerStatuses = containers(have.EphemeralContainerStatuses, want.EphemeralContainerStatuses)
	out.Conditions = conditions(have, want)
	// Other components own these.
	out.NominatedNodeName = have.NominatedNodeName
	out.ResourceClaimStatuses = have.ResourceClaimStatuses
	out.ExtendedResourceClaimStatus = have.ExtendedResourceClaimStatus
	out.NodeAllocatableResourceClaimStatuses = have.NodeAllocatableResourceClaimStatuses
	return out, !podstatus.Equal(have, &out)
}

// containers merges two lists of container statuses: want, completed with what only have knows.
func containers(have, want []v1.ContainerStatus) []v1.ContainerStatus {
	if len(have) == 0 {
		return want
	}
	out, own := want, false
	wanted := smallmap.LookupIn(want, nameOfStatus)
	for i := range have {
		h := &have[i]
		j := wanted.Place(h.Name, i)
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

func nameOfStatus(s *v1.ContainerStatus) string { return s.Name }

// terminated keeps statuses that the apiserver does not let leave the state Terminated (podspec.MayLeaveTerminated):
// init containers that run again in another sandbox, and what an agent without restart notes wrote.
// Otherwise the apiserver would reject the whole status.
func terminated(pod *v1.Pod, specs []v1.Container, have, want []v1.ContainerStatus) []v1.ContainerStatus {
	if podspec.MayRestartAll(pod) {
		return want
	}
	out, own := want, false
	wanted := smallmap.LookupIn(want, nameOfStatus)
	spec := smallmap.LookupIn(specs, func(c *v1.Container) string { return c.Name })
	for i := range have {
		h := &have[i]
		if h.State.Terminated == nil {
			continue
		}
		j, s := wanted.Place(h.Name, i), spec.Place(h.Name, i)
		if j < 0 || s < 0 || out[j].State.Terminated != nil ||
			podspec.RestartsAfter(&specs[s], pod, h.State.Terminated.ExitCode) {
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

// remember is w, completed from h.
func remember(h, w *v1.ContainerStatus) v1.ContainerStatus {
	out := *w
	if lostSight(h, w) || revived(h, w) {
		out = *h
		if w.Resources != nil { // the resources must agree with the conditions of a resize
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

// ended says whether an end of the container is known.
func ended(s *v1.ContainerStatus) bool {
	return s.State.Terminated != nil || s.LastTerminationState.Terminated != nil
}

// lostSight: the container ran or has ended, but w only says that it waits.
func lostSight(h, w *v1.ContainerStatus) bool {
	return (h.State.Running != nil || h.State.Terminated != nil) &&
		w.State.Running == nil && !ended(w)
}

// revived: h shows that this container has ended, and w shows it running. So w is older than h.
func revived(h, w *v1.ContainerStatus) bool {
	return h.State.Terminated != nil && h.ContainerID != "" && h.ContainerID == w.ContainerID &&
		w.State.Running != nil
}

// conditions replaces this node's conditions and keeps those of other components.
func conditions(object, status *v1.PodStatus) []v1.PodCondition {
	have, want := object.Conditions, status.Conditions
	out, own := have, false
	known := smallmap.LookupIn(have, typeOfCondition)
	for i := range want {
		w := &want[i]
		j := known.Place(w.Type, i)
		// Others may have set that one before, and given up: what this node does counts.
		mine := podstatus.Ours(w.Type) || w.Type == v1.DisruptionTarget && w.Reason == v1.PodReasonTerminationByKubelet
		if j >= 0 && !mine {
			continue
		}
		if j < 0 && !mine && w.Type != v1.DisruptionTarget {
			continue // another client removed it
		}
		n := *w
		if j >= 0 {
			h := &out[j]
			if n.Type != v1.PodResizePending && n.Type != v1.PodResizeInProgress { // times of these follow other rules
				if h.Status == w.Status {
					n.LastTransitionTime = h.LastTransitionTime
				}
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
			out, own = append(make([]v1.PodCondition, 0, max(len(have), len(want))), have...), true
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
		// These two exist only while they hold. A status computed for an older generation cannot tell.
		out, own = slices.DeleteFunc(slices.Clone(out), gone), true
	}
	if own && sameMergedConditions(out, want) {
		return want // shared, because there is one list per pod
	}
	return out
}

// sameMergedConditions says whether two lists say the same, in any order.
func sameMergedConditions(a, b []v1.PodCondition) bool {
	if len(a) != len(b) {
		return false
	}
	there := smallmap.LookupIn(b, typeOfCondition)
	for i := range a {
		if j := there.Place(a[i].Type, i); j < 0 || !podstatus.EqualCondition(&a[i], &b[j]) {
			return false
		}
	}
	return true
}

func typeOfCondition(c *v1.PodCondition) v1.PodConditionType { return c.Type }
