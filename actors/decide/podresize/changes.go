package podresize

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Change is what a new version of a pod asks for of a resource of one container.
type Change struct {
	Resource v1.ResourceName
	// Requirement is requests or limits, Operation add, remove, increase or decrease.
	Requirement, Operation string
}

// Changes are what a new version of a pod asks for of the CPU and memory of its containers.
func Changes(old, now *v1.Pod) (out []Change) {
	had := Of(old)
	for c := range podspec.Lasting(&now.Spec) {
		was, known := had.Containers[c.Name]
		if !known {
			continue
		}
		for _, l := range [...]struct {
			requirement string
			was, is     v1.ResourceList
		}{{"requests", was.Requests, c.Resources.Requests}, {"limits", was.Limits, c.Resources.Limits}} {
			for _, name := range resources {
				if how := operation(l.was[name], l.is[name]); how != "" {
					out = append(out, Change{name, l.requirement, how})
				}
			}
		}
	}
	return out
}

func operation(was, is resource.Quantity) string {
	switch by := is.Cmp(was); {
	case by == 0:
		return ""
	case is.IsZero():
		return "remove"
	case was.IsZero():
		return "add"
	case by < 0:
		return "decrease"
	default:
		return "increase"
	}
}
