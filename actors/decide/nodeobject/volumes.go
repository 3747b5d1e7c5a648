package nodeobject

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// SameVolumes says whether two versions of a Node say the same of its volumes, and of what CSI drivers say of it.
func SameVolumes(a, b *v1.Node) bool {
	return slices.Equal(a.Status.VolumesInUse, b.Status.VolumesInUse) &&
		slices.Equal(a.Status.VolumesAttached, b.Status.VolumesAttached) &&
		maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}
