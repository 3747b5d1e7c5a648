// Package devicehealth is the value that says how the devices of a pod's containers are (KEP-4680).
package devicehealth

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Pod is how the devices of a pod's containers are, by the names of the containers
// (ContainerStatus.allocatedResourcesStatus). It is never mutated.
type Pod map[string][]v1.ResourceStatus

// Equal reports whether two are the same.
func (p Pod) Equal(o Pod) bool {
	return maps.EqualFunc(p, o, func(a, b []v1.ResourceStatus) bool { return slices.EqualFunc(a, b, same) })
}

func same(a, b v1.ResourceStatus) bool {
	return a.Name == b.Name && slices.EqualFunc(a.Resources, b.Resources, func(a, b v1.ResourceHealth) bool {
		return a.ResourceID == b.ResourceID && a.Health == b.Health && ptr.Equal(a.Message, b.Message)
	})
}

// After are entries with newer ones in the place of those of the same resources.
func After(old, newer []v1.ResourceStatus) []v1.ResourceStatus {
	var out []v1.ResourceStatus
	for _, s := range old {
		if !slices.ContainsFunc(newer, func(n v1.ResourceStatus) bool { return n.Name == s.Name }) {
			out = append(out, s)
		}
	}
	if out = append(out, newer...); slices.EqualFunc(old, out, same) {
		return old
	}
	return out
}
