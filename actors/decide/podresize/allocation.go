// Package podresize decides on the resize of running pods (KEP-1287, KEP-5419): whether the node
// allocates what a pod asks for now, and the next step to apply an allocation.
//
//	          the spec asks for another
//	(as made) ─────────────────────────► pending ──never──► Infeasible
//	                                     │  ▲ │
//	                   room: Allocate    │  │ └─no room now──► Deferred ─┐
//	                                     ▼  └────── something is freed ──┘
//	                                  allocated ──► steps (see Next) ──► the limits are what is allocated
//	                                                  └─ refused, or memory in use: an error, tried again
//
// The allocation is what a pod holds of the node, whatever its spec asks for. It counts at the
// admission of other pods, its containers are made with it, and its status shows it.
package podresize

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Allocation holds the resources allocated to a pod. It is stored in a checkpoint, and is
// immutable.
type Allocation struct {
	// Generation is that of the spec that asked for it.
	Generation int64 `json:"generation,omitempty"`
	// Pod is the allocation of the whole pod (spec.resources); nil for none.
	Pod *v1.ResourceRequirements `json:"pod,omitempty"`
	// Containers are by name: main and init containers.
	Containers map[string]v1.ResourceRequirements `json:"containers"`
}

// Of is the allocation that equals the pod's spec. It shares memory with the pod.
func Of(pod *v1.Pod) *Allocation {
	a := Allocation{Generation: pod.Generation, Pod: pod.Spec.Resources, Containers: map[string]v1.ResourceRequirements{}}
	for c := range podspec.Lasting(&pod.Spec) {
		a.Containers[c.Name] = c.Resources
	}
	return &a
}

// Holds says whether the allocation equals what the pod asks for.
func (a *Allocation) Holds(pod *v1.Pod) bool {
	if !samePod(a.Pod, pod.Spec.Resources) {
		return false
	}
	for c := range podspec.Lasting(&pod.Spec) {
		if got, ok := a.Containers[c.Name]; ok && !same(&got, &c.Resources) {
			return false
		}
	}
	return true
}

// Apply is the pod with its allocation in place of the resources in its spec; the pod itself if
// they are equal. It shares everything else with the pod.
func (a *Allocation) Apply(pod *v1.Pod) *v1.Pod {
	if a.Holds(pod) {
		return pod
	}
	out := *pod
	out.Spec.Resources = a.Pod
	out.Spec.InitContainers = a.apply(pod.Spec.InitContainers)
	out.Spec.Containers = a.apply(pod.Spec.Containers)
	return &out
}

func (a *Allocation) apply(list []v1.Container) []v1.Container {
	out := make([]v1.Container, len(list))
	copy(out, list)
	for i := range out {
		if got, ok := a.Containers[out[i].Name]; ok {
			out[i].Resources = got
		}
	}
	return out
}

// Greater is, for each resource, the greater of two allocations. It is held while it is uncertain
// which of the two an agent would start with.
func Greater(a, b *Allocation) *Allocation {
	out := Allocation{Generation: b.Generation, Pod: b.Pod, Containers: maps.Clone(b.Containers)}
	if a.Pod != nil && b.Pod != nil {
		most := greater(*a.Pod, *b.Pod)
		out.Pod = &most
	}
	for name, has := range a.Containers { // order-free: a map again
		if other, ok := out.Containers[name]; ok {
			has = greater(has, other)
		}
		out.Containers[name] = has
	}
	return &out
}

func greater(a, b v1.ResourceRequirements) v1.ResourceRequirements {
	b.Requests, b.Limits = greaterList(a.Requests, b.Requests), greaterList(a.Limits, b.Limits)
	return b
}

func greaterList(a, b v1.ResourceList) v1.ResourceList {
	if len(a) == 0 {
		return b
	}
	out := maps.Clone(a)
	podspec.RaiseResources(out, b)
	return out
}

// Changed says whether two versions of a pod ask for different resources.
func Changed(old, now *v1.Pod) bool { return !Of(old).Holds(now) }

// FromStatus is the allocation in a pod's status; nil if it equals the spec or is not there. It is
// used if the node has no record: a resize that was requested while no agent ran.
func FromStatus(pod *v1.Pod) *Allocation {
	a := Of(pod)
	if own := pod.Status.Resources; own != nil && pod.Spec.Resources != nil {
		was := *pod.Spec.Resources
		// Resources that the pod does not set as a whole come from its containers.
		was.Requests = resizable(was.Requests, podspec.OnlyResources(own.Requests, was.Requests))
		was.Limits = resizable(was.Limits, podspec.OnlyResources(own.Limits, was.Limits))
		a.Pod = &was
	}
	for _, list := range [...][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			was, known := a.Containers[list[i].Name]
			if !known || list[i].Resources == nil {
				continue
			}
			if list[i].AllocatedResources != nil { // not every agent reports it
				was.Requests = resizable(was.Requests, list[i].AllocatedResources)
			}
			limits := list[i].Resources.Limits
			if pod.Spec.Resources != nil { // limits that the container does not ask for are its pod's
				limits = podspec.OnlyResources(limits, was.Limits)
			}
			was.Limits = resizable(was.Limits, limits)
			a.Containers[list[i].Name] = was
		}
	}
	if a.Holds(pod) {
		return nil
	}
	a.Generation = 0 // unknown
	return a
}

// resizable is list with the values in was for those resources that can be resized.
func resizable(list, was v1.ResourceList) v1.ResourceList {
	out := maps.Clone(list)
	for _, name := range [...]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		q, ok := was[name]
		switch _, asked := list[name]; {
		case ok && out == nil:
			out = v1.ResourceList{name: q}
		case ok:
			out[name] = q
		case asked:
			delete(out, name)
		}
	}
	return out
}

func samePod(a, b *v1.ResourceRequirements) bool {
	if a == nil || b == nil {
		return a == b
	}
	return same(a, b)
}

func same(a, b *v1.ResourceRequirements) bool {
	return podspec.SameResources(a.Requests, b.Requests) && podspec.SameResources(a.Limits, b.Limits) &&
		apiequality.Semantic.DeepEqual(a.Claims, b.Claims)
}
