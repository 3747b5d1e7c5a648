package admit

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/isolation"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// groupsPolicy rejects a pod with supplementalGroupsPolicy Strict if the runtime does not support
// it (KEP-3619).
func groupsPolicy(r *Request) *Rejection {
	sc := r.Pod.Spec.SecurityContext
	if r.Node.StrictGroups || sc == nil || sc.SupplementalGroupsPolicy == nil ||
		*sc.SupplementalGroupsPolicy != v1.SupplementalGroupsPolicyStrict {
		return nil
	}
	return reject("SupplementalGroupsPolicyNotSupported", "SupplementalGroupsPolicy=%s is not supported in this node",
		v1.SupplementalGroupsPolicyStrict)
}

// appArmor rejects a pod that would run without the required confinement. A pod that already runs
// stays.
func appArmor(r *Request) *Rejection {
	if p := r.Pod.Status.Phase; p != "" && p != v1.PodPending || !isolation.AppArmorRequired(r.Pod) {
		return nil
	}
	if !r.Node.AppArmor {
		return reject("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host")
	}
	for c := range podspec.All(&r.Pod.Spec) {
		p := isolation.AppArmorProfile(r.Pod, c)
		if p != nil && p.Type == v1.AppArmorProfileTypeLocalhost &&
			(p.LocalhostProfile == nil || strings.TrimSpace(*p.LocalhostProfile) == "") {
			return reject("AppArmor", "Cannot enforce AppArmor: container %q: invalid empty AppArmor profile name", c.Name)
		}
	}
	return nil
}
