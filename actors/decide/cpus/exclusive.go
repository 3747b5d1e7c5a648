package cpus

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/topology"
)

// Exclusive is how many CPUs a container gets alone, 0 for none. A container is entitled if its pod is Guaranteed and
// its CPU request is integral. Init containers and sidecars are too, ephemeral containers are not.
//
// A pod with resources of its own gets none, unless podLevel says that the feature gate PodLevelResourceManagers is on
// (KEP-5526). Then a container is entitled if also its own limits are its requests, for CPU and memory.
func Exclusive(pod *v1.Pod, c *v1.Container, podLevel bool) int {
	if podspec.Class(pod) != v1.PodQOSGuaranteed || podspec.OwnResources(pod) && (!podLevel || !guaranteed(c)) {
		return 0
	}
	return integral(c.Resources.Requests[v1.ResourceCPU])
}

func integral(q resource.Quantity) int {
	if q.MilliValue() != q.Value()*1000 {
		return 0
	}
	return int(q.Value())
}

func guaranteed(c *v1.Container) bool {
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
		if request.IsZero() || request.Cmp(limit) != 0 {
			return false
		}
	}
	return true
}

// ExclusiveOfPod is how many CPUs the containers of a pod have alone at most at any time (KEP-753), for the scope pod
// of the topology manager. Of a Guaranteed pod with resources of its own, it is its own request, if that is
// integral; the rest of it is for its other containers (see [Split]). podLevel is as for [Exclusive].
func ExclusiveOfPod(pod *v1.Pod, podLevel bool) int {
	if podspec.OwnResources(pod) {
		if !podLevel || podspec.Class(pod) != v1.PodQOSGuaranteed {
			return 0
		}
		return integral(pod.Spec.Resources.Requests[v1.ResourceCPU])
	}
	running, peak := 0, 0
	for c, kind := range podspec.Lasting(&pod.Spec) {
		n := Exclusive(pod, c, podLevel)
		if kind == podspec.Init {
			peak = max(peak, running+n)
		} else {
			running += n
		}
	}
	return max(running, peak)
}

// Reusable are the CPUs that the next container of a pod may share with init containers, which have ended when it
// starts. Assigned are the CPUs of its containers so far, by name. What a sidecar or main container has is not
// reusable, whichever init container had it before.
func Reusable(spec *v1.PodSpec, assigned map[string]cpuset.CPUSet) cpuset.CPUSet {
	out := cpuset.New()
	for c, kind := range podspec.Lasting(spec) {
		if kind == podspec.Init {
			out = out.Union(assigned[c.Name])
		} else {
			out = out.Difference(assigned[c.Name])
		}
	}
	return out
}

// Split divides the CPUs of a pod with resources of its own among its containers, with the feature gate
// PodLevelResourceManagers and the scope pod. The result has the CPUs of each container but the ephemeral ones. Those
// that are not entitled share what the others leave; init containers all that sidecars before them leave.
//
// The pod has whole cores with full-pcpus-only, but its containers may share one. Split fails with [*EmptyPoolError] if
// nothing is left to share, and with [*ShortError].
func Split(t *topology.Machine, pod *v1.Pod, cpus cpuset.CPUSet, o Options) (map[string]cpuset.CPUSet, error) {
	out := map[string]cpuset.CPUSet{}
	left, lasting, share := cpus, 0, []string{}
	for c, kind := range podspec.Lasting(&pod.Spec) {
		n := Exclusive(pod, c, true)
		switch {
		case n > 0:
			got, err := choose(t, left, n, 1, o)
			if err != nil {
				return nil, err
			}
			out[c.Name] = got
			if kind != podspec.Init {
				left, lasting = left.Difference(got), lasting+n
			}
		case kind == podspec.Init:
			if lasting >= cpus.Size() {
				return nil, &EmptyPoolError{init: true}
			}
			out[c.Name] = left
		default:
			share = append(share, c.Name)
		}
	}
	if len(share) > 0 && lasting >= cpus.Size() {
		return nil, &EmptyPoolError{}
	}
	for _, name := range share {
		out[name] = left
	}
	return out, nil
}
