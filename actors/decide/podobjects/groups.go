package podobjects

import (
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// gidAnnotation is the group that may use a PersistentVolume (Kubernetes documentation, "Configure a Pod to Use a
// PersistentVolume for Storage", Access control).
const gidAnnotation = "pv.beta.kubernetes.io/gid"

// Groups are the groups that the PersistentVolumes of a pod give to its containers, sorted, but for those that the pod
// has of its own. A value that is no number gives none.
func (s Set) Groups(pod *v1.Pod) []int64 {
	var out []int64
	for v := range podspec.Volumes(&pod.Spec) {
		claim, err := s.Claim(pod.Namespace, ClaimName(pod, v))
		if err != nil {
			continue
		}
		pv, err := s.Volume(claim.Spec.VolumeName)
		if err != nil {
			continue
		}
		gid, err := strconv.ParseInt(pv.Annotations[gidAnnotation], 10, 64)
		own := pod.Spec.SecurityContext
		if err == nil && (own == nil || !slices.Contains(own.SupplementalGroups, gid)) {
			out = append(out, gid)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
