package translate

import v1 "k8s.io/api/core/v1"

// qosClass is the pod's quality of service: what its status says, or else what
// follows from CPU and memory of its containers, or of the pod as a whole where
// that is set (Kubernetes docs: Pod Quality of Service Classes).
func qosClass(pod *v1.Pod) v1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	if r := pod.Spec.Resources; r != nil && (len(r.Requests) > 0 || len(r.Limits) > 0) {
		return qosOf([]v1.ResourceRequirements{*r})
	}
	var all []v1.ResourceRequirements
	for i := range pod.Spec.Containers {
		all = append(all, pod.Spec.Containers[i].Resources)
	}
	for i := range pod.Spec.InitContainers {
		all = append(all, pod.Spec.InitContainers[i].Resources)
	}
	return qosOf(all)
}

// qosOf is guaranteed if each limits CPU and memory to what it requests, which
// is the limit if it says nothing else; best effort if none says anything.
func qosOf(all []v1.ResourceRequirements) v1.PodQOSClass {
	guaranteed, anything := true, false
	for i := range all {
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			request, limit := all[i].Requests[name], all[i].Limits[name]
			if !request.IsZero() || !limit.IsZero() {
				anything = true
			}
			if limit.IsZero() || (!request.IsZero() && request.Cmp(limit) != 0) {
				guaranteed = false
			}
		}
	}
	switch {
	case !anything:
		return v1.PodQOSBestEffort
	case guaranteed:
		return v1.PodQOSGuaranteed
	default:
		return v1.PodQOSBurstable
	}
}
