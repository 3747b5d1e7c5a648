package podspec

import v1 "k8s.io/api/core/v1"

// FSGroup is the group that the volumes of a pod are given to (API PodSecurityContext.fsGroup); nil for none.
func FSGroup(pod *v1.Pod) *int64 {
	if c := pod.Spec.SecurityContext; c != nil {
		return c.FSGroup
	}
	return nil
}
