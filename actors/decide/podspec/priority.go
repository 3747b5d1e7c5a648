package podspec

import v1 "k8s.io/api/core/v1"

// Priority is a pod's priority; 0 if it has none.
func Priority(pod *v1.Pod) int32 {
	if p := pod.Spec.Priority; p != nil {
		return *p
	}
	return 0
}
