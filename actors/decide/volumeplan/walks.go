package volumeplan

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Walks reports whether mounting goes through all files of a disk of this machine, to give them to the group of the pod
// (API PodSecurityContext.fsGroup): that may take hours, and goes on for as long as the pod needs it.
func (m *Mount) Walks(pod *v1.Pod) bool {
	if m.ReadOnly || podspec.FSGroup(pod) == nil || podspec.IsDevice(m.Persistent) {
		return false
	}
	if pv := m.Persistent; pv != nil {
		return pv.Spec.Local != nil || pv.Spec.ISCSI != nil || pv.Spec.FC != nil
	}
	v := m.Volume
	return v != nil && (v.ISCSI != nil || v.FC != nil)
}
