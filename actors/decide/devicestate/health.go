package devicestate

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Health is how the devices of a pod's containers are, by the names of the containers
// (ContainerStatus.allocatedResourcesStatus). It is never mutated.
type Health map[string][]v1.ResourceStatus

// Equal reports whether two are the same.
func (p Health) Equal(o Health) bool {
	return maps.EqualFunc(p, o, func(a, b []v1.ResourceStatus) bool { return slices.EqualFunc(a, b, sameHealth) })
}

func sameHealth(a, b v1.ResourceStatus) bool {
	return a.Name == b.Name && slices.EqualFunc(a.Resources, b.Resources, func(a, b v1.ResourceHealth) bool {
		return a.ResourceID == b.ResourceID && a.Health == b.Health && ptr.Equal(a.Message, b.Message)
	})
}

// HealthAfter are entries with newer ones in the place of those of the same resources.
func HealthAfter(old, newer []v1.ResourceStatus) []v1.ResourceStatus {
	var out []v1.ResourceStatus
	for _, s := range old {
		if !slices.ContainsFunc(newer, func(n v1.ResourceStatus) bool { return n.Name == s.Name }) {
			out = append(out, s)
		}
	}
	if out = append(out, newer...); slices.EqualFunc(old, out, sameHealth) {
		return old
	}
	return out
}
