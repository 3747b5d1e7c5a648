package podstatus

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// HiddenResize says how a pod in the API presents an unfinished resize as done; empty if it does
// not. A client waits until status.observedGeneration is the pod's generation and neither
// PodResizePending nor PodResizeInProgress exists. So a status that acknowledges a generation must
// have one of the two for it, or show the resources that it asks for. A pod that has ended or is
// being deleted is no longer resized. This is an invariant for tests and for the checkers of a
// simulation.
func HiddenResize(pod *v1.Pod) string {
	s := &pod.Status
	if s.ObservedGeneration < pod.Generation || pod.DeletionTimestamp != nil || podspec.Terminal(s.Phase) {
		return ""
	}
	for _, t := range [...]v1.PodConditionType{v1.PodResizePending, v1.PodResizeInProgress} {
		if c := FindCondition(s.Conditions, t); c != nil && c.ObservedGeneration == s.ObservedGeneration {
			return ""
		}
	}
	for _, l := range [...]struct {
		spec  []v1.Container
		shown []v1.ContainerStatus
	}{{pod.Spec.InitContainers, s.InitContainerStatuses}, {pod.Spec.Containers, s.ContainerStatuses}} {
		for i := range l.spec {
			if c := find(l.shown, l.spec[i].Name); c != nil {
				has := c.Resources
				if has != nil && pod.Spec.Resources != nil { // limits that it does not ask for are its pod's
					has = &v1.ResourceRequirements{
						Requests: has.Requests, Limits: podspec.OnlyResources(has.Limits, l.spec[i].Resources.Limits),
					}
				}
				if why := otherResources(&l.spec[i].Resources, has, c.AllocatedResources); why != "" {
					return fmt.Sprintf("generation %d is acknowledged with no resize pending or in progress (conditions: %s), but "+
						"container %s %s",
						s.ObservedGeneration, resizeStates(s), c.Name, why)
				}
			}
		}
	}
	if pod.Spec.Resources != nil && s.Resources != nil {
		// Resources that the pod does not set as a whole come from its containers.
		has := v1.ResourceRequirements{Requests: podspec.OnlyResources(s.Resources.Requests, pod.Spec.Resources.Requests),
			Limits: podspec.OnlyResources(s.Resources.Limits, pod.Spec.Resources.Limits)}
		if why := otherResources(pod.Spec.Resources, &has, nil); why != "" {
			return fmt.Sprintf("generation %d is acknowledged with no resize pending or in progress (conditions: %s), but "+
				"the pod %s",
				s.ObservedGeneration, resizeStates(s), why)
		}
	}
	return ""
}

// otherResources says how the shown resources differ from the spec's. nil means not reported.
func otherResources(asked, has *v1.ResourceRequirements, given v1.ResourceList) string {
	switch {
	case given != nil && !podspec.SameResources(given, asked.Requests):
		return fmt.Sprintf("was allocated %s and asks for %s",
			podspec.ResourceText(given), podspec.ResourceText(asked.Requests))
	case has == nil || equalLists(has, asked):
		return ""
	}
	return fmt.Sprintf("has requests %s and limits %s, and asks for requests %s and limits %s",
		podspec.ResourceText(has.Requests), podspec.ResourceText(has.Limits), podspec.ResourceText(asked.Requests),
		podspec.ResourceText(asked.Limits))
}

func equalLists(a, b *v1.ResourceRequirements) bool {
	return podspec.SameResources(a.Requests, b.Requests) && podspec.SameResources(a.Limits, b.Limits)
}

func resizeStates(s *v1.PodStatus) string {
	var out string
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress {
			out += fmt.Sprintf("%s %s of generation %d; ", c.Type, c.Reason, c.ObservedGeneration)
		}
	}
	if out == "" {
		return "none"
	}
	return out
}
