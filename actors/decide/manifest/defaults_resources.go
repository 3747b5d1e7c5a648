package manifest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// defaultPodResources fills in spec.resources where the pod has any (KEP-2837):
// a huge page limit from the containers' limits, then for each resource the
// request from the containers' requests, and from the pod's limit where no
// container asks for it.
func defaultPodResources(spec *v1.PodSpec) {
	r := spec.Resources
	if r == nil || len(r.Limits)+len(r.Requests) == 0 {
		return
	}
	roundUp(r.Limits)
	roundUp(r.Requests)
	limits := effective(spec, limitsOf)
	for _, name := range sortedKeys(limits) {
		_, limited := r.Limits[name]
		_, asked := r.Requests[name]
		if isHugePages(name) && !limited && !asked {
			if r.Limits == nil {
				r.Limits = v1.ResourceList{}
			}
			r.Limits[name] = limits[name]
		}
	}
	if len(r.Limits) == 0 {
		return
	}
	requests := v1.ResourceList{}
	for name, limit := range r.Limits {
		if isPodLevel(name) {
			requests[name] = limit.DeepCopy()
		}
	}
	for name, asked := range effective(spec, requestsOf) {
		// Huge pages cannot be overcommitted: their request is the limit.
		if isPodLevel(name) && !isHugePages(name) {
			requests[name] = asked
		}
	}
	for name, given := range r.Requests {
		requests[name] = given
	}
	if len(requests) > 0 {
		r.Requests = requests
	}
}

func isHugePages(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

// isPodLevel tells whether spec.resources may hold a resource.
func isPodLevel(name v1.ResourceName) bool {
	return name == v1.ResourceCPU || name == v1.ResourceMemory || isHugePages(name)
}

func limitsOf(c *v1.Container) v1.ResourceList   { return c.Resources.Limits }
func requestsOf(c *v1.Container) v1.ResourceList { return c.Resources.Requests }

// effective is what the pod needs at its peak: all main containers and
// sidecars together, or one init container beside the sidecars started before
// it, whichever is more for each resource.
func effective(spec *v1.PodSpec, of func(*v1.Container) v1.ResourceList) v1.ResourceList {
	sidecars, peak := v1.ResourceList{}, v1.ResourceList{}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if isSidecar(c) {
			add(sidecars, of(c))
			raise(peak, sidecars)
			continue
		}
		while := sidecars.DeepCopy()
		add(while, of(c))
		raise(peak, while)
	}
	running := sidecars
	for i := range spec.Containers {
		add(running, of(&spec.Containers[i]))
	}
	raise(running, peak)
	return running
}

func isSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

func add(to, list v1.ResourceList) {
	for name, quantity := range list {
		sum := quantity.DeepCopy()
		if have, ok := to[name]; ok {
			sum = have.DeepCopy()
			sum.Add(quantity)
		}
		to[name] = sum
	}
}

func raise(to, list v1.ResourceList) {
	for name, quantity := range list {
		if have, ok := to[name]; !ok || less(have, quantity) {
			to[name] = quantity.DeepCopy()
		}
	}
}

func less(a, b resource.Quantity) bool { return a.Cmp(b) < 0 }
