package podspec

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Requests are the resources that a pod requests from its node, including its overhead (KEP-753,
// KEP-2837).
func Requests(pod *v1.Pod) v1.ResourceList {
	sum := Together(&pod.Spec, requests)
	AddResources(sum, pod.Spec.Overhead)
	return sum
}

// Limits are the limits of a whole pod, for the resources that are limited (KEP-753, KEP-2837). The
// overhead is added. It is a sum over those containers that have a limit: Limited says whether it holds.
func Limits(pod *v1.Pod) v1.ResourceList {
	sum := Together(&pod.Spec, limits)
	for name, q := range pod.Spec.Overhead { // order-free: by key
		if have, ok := sum[name]; ok && have.Sign() > 0 {
			have = have.DeepCopy()
			have.Add(q)
			sum[name] = have
		}
	}
	return sum
}

// Limited says whether a pod has a limit for a resource: its own, or one of each container of these kinds.
func Limited(pod *v1.Pod, name v1.ResourceName, kinds ...Kind) bool {
	if r := pod.Spec.Resources; r != nil {
		if q := r.Limits[name]; q.Sign() > 0 {
			return true
		}
	}
	for c, kind := range Lasting(&pod.Spec) {
		if q := c.Resources.Limits[name]; q.Sign() <= 0 && slices.Contains(kinds, kind) {
			return false
		}
	}
	return true
}

func requests(r *v1.ResourceRequirements) v1.ResourceList { return r.Requests }
func limits(r *v1.ResourceRequirements) v1.ResourceList   { return r.Limits }

// Together is the maximum that a pod's containers have at any time, of requests or limits as of
// selects. The pod's own resources take precedence. Overhead is not included.
func Together(spec *v1.PodSpec, of func(*v1.ResourceRequirements) v1.ResourceList) v1.ResourceList {
	sum := Peak(spec, func(c *v1.Container) v1.ResourceList { return of(&c.Resources) })
	if spec.Resources != nil {
		for name, q := range of(spec.Resources) { // order-free: by key
			sum[name] = q.DeepCopy()
		}
	}
	return sum
}

// Peak is the maximum that a pod's containers have at any time, of what of selects. That may be
// during the start, when an init container runs beside the sidecars before it, or later, when all
// main containers and sidecars run (KEP-753).
func Peak(spec *v1.PodSpec, of func(*v1.Container) v1.ResourceList) v1.ResourceList {
	running, peak := v1.ResourceList{}, v1.ResourceList{}
	for c, kind := range Lasting(spec) {
		if kind == Init {
			while := running.DeepCopy()
			AddResources(while, of(c))
			RaiseResources(peak, while)
			continue
		}
		AddResources(running, of(c))
	}
	RaiseResources(running, peak)
	return running
}
