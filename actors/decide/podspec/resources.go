package podspec

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/resourcelist"
)

// Requests is what a pod asks of the node (KEP-753, KEP-2837), its overhead
// included.
func Requests(pod *v1.Pod) v1.ResourceList {
	sum := Together(&pod.Spec, requests)
	resourcelist.Add(sum, pod.Spec.Overhead)
	return sum
}

// Limits is the most that a pod may use, of what is limited (KEP-753, KEP-2837).
// Its overhead is added to that.
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

func requests(r *v1.ResourceRequirements) v1.ResourceList { return r.Requests }
func limits(r *v1.ResourceRequirements) v1.ResourceList   { return r.Limits }

// Together is the most that a pod's containers have at any time of what of picks.
// What the pod as a whole says stands above that. Its overhead is not included.
func Together(spec *v1.PodSpec, of func(*v1.ResourceRequirements) v1.ResourceList) v1.ResourceList {
	sum := Peak(spec, func(c *v1.Container) v1.ResourceList { return of(&c.Resources) })
	if spec.Resources != nil {
		for name, q := range of(spec.Resources) { // order-free: by key
			sum[name] = q.DeepCopy()
		}
	}
	return sum
}

// Peak is the most that a pod's containers have at any time of what of picks of
// each, be it while the pod starts, when an init container runs beside the
// sidecars before it, or later, when all main containers and sidecars do
// (KEP-753).
func Peak(spec *v1.PodSpec, of func(*v1.Container) v1.ResourceList) v1.ResourceList {
	running, peak := v1.ResourceList{}, v1.ResourceList{}
	for c, kind := range Lasting(spec) {
		if kind == Init {
			while := running.DeepCopy()
			resourcelist.Add(while, of(c))
			resourcelist.Raise(peak, while)
			continue
		}
		resourcelist.Add(running, of(c))
	}
	resourcelist.Raise(running, peak)
	return running
}
