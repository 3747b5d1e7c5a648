package manifest

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
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
	limits := podspec.Peak(spec, limitsOf)
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
	for name, asked := range podspec.Peak(spec, requestsOf) {
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
