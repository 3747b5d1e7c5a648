// Package podresize decides on the resize of pods that run (KEP-1287, KEP-5419):
// whether a node gives a pod what it asks for now, and what to do next so that it
// has what it was given.
//
//	          the spec asks for another
//	(as made) ─────────────────────────► pending ──never──► Infeasible
//	                                     │  ▲ │
//	                   room: Allocate    │  │ └─no room now──► Deferred ─┐
//	                                     ▼  └────── something is freed ──┘
//	                                  allocated ──► steps (see Next) ──► the limits are what is allocated
//	                                                  └─ refused, or memory in use: an error, tried again
//
// What is allocated is what a pod holds of the node: others are admitted beside
// it, its containers are made of it, and its status shows it, whatever its spec
// asks for.
package podresize

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/resourcelist"
)

// Allocation is what a pod was given. It is what a checkpoint holds, and is never
// changed.
type Allocation struct {
	// Generation is that of the pod's spec that asked for it.
	Generation int64 `json:"generation,omitempty"`
	// Pod is what the pod as a whole was given (spec.resources); nil for nothing.
	Pod *v1.ResourceRequirements `json:"pod,omitempty"`
	// Containers are by name: main and init containers.
	Containers map[string]v1.ResourceRequirements `json:"containers"`
}

// Of is the allocation that is just what a pod asks for. It shares memory with it.
func Of(pod *v1.Pod) *Allocation {
	a := Allocation{Generation: pod.Generation, Pod: pod.Spec.Resources, Containers: map[string]v1.ResourceRequirements{}}
	for c := range podspec.Lasting(&pod.Spec) {
		a.Containers[c.Name] = c.Resources
	}
	return &a
}

// Holds says whether an allocation is what the pod asks for.
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

// Apply is the pod with what it was given in the place of what it asks for; the
// pod itself if that is the same. It shares all else with it.
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

// Greater is, of each resource, the greater of what two allocations give: what is
// held while it is not certain which of the two an agent would begin with.
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
	resourcelist.Raise(out, b)
	return out
}

// Changed says whether two versions of a pod ask for different resources.
func Changed(old, now *v1.Pod) bool { return !Of(old).Holds(now) }

// FromStatus is the allocation that a pod's status tells of, nil if it is what the
// pod asks for or the status does not say. It is what is left of one where the
// node has no record: the resize of a pod that was asked for while no agent ran.
func FromStatus(pod *v1.Pod) *Allocation {
	a := Of(pod)
	if own := pod.Status.Resources; own != nil && pod.Spec.Resources != nil {
		was := *pod.Spec.Resources
		was.Requests = resizable(was.Requests, own.Requests)
		was.Limits = resizable(was.Limits, own.Limits)
		a.Pod = &was
	}
	for _, list := range [...][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			was, known := a.Containers[list[i].Name]
			if !known || list[i].Resources == nil {
				continue
			}
			if list[i].AllocatedResources != nil { // not every agent says it
				was.Requests = resizable(was.Requests, list[i].AllocatedResources)
			}
			was.Limits = resizable(was.Limits, list[i].Resources.Limits)
			a.Containers[list[i].Name] = was
		}
	}
	if a.Holds(pod) {
		return nil
	}
	a.Generation = 0 // nobody knows
	return a
}

// resizable is list with what another says of the resources that can be resized.
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
	return resourcelist.Equal(a.Requests, b.Requests) && resourcelist.Equal(a.Limits, b.Limits) &&
		apiequality.Semantic.DeepEqual(a.Claims, b.Claims)
}
