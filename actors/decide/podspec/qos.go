package podspec

import v1 "k8s.io/api/core/v1"

// QOS is the quality of service class of a pod (API field status.qosClass). It follows from the
// requests and limits for CPU and memory of the pod (KEP-2837), or of all its containers if the pod
// has none. Ephemeral containers have none.
//
//	no request, no limit                          BestEffort
//	limits for both everywhere, requests equal    Guaranteed
//	anything else                                 Burstable
func QOS(pod *v1.Pod) v1.PodQOSClass {
	q := qos{guaranteed: true}
	if OwnResources(pod) {
		q.count(pod.Spec.Resources)
		return q.class()
	}
	for c := range Lasting(&pod.Spec) {
		q.count(&c.Resources)
	}
	return q.class()
}

// OwnResources says whether a pod has requests or limits of its own, besides those of its containers (KEP-2837).
func OwnResources(pod *v1.Pod) bool {
	r := pod.Spec.Resources
	return r != nil && len(r.Requests)+len(r.Limits) > 0
}

// Class is the QoS class in the pod's status, which never changes; the result of QOS if it is not set, or is one that
// this agent does not know.
func Class(pod *v1.Pod) v1.PodQOSClass {
	switch of := pod.Status.QOSClass; of {
	case v1.PodQOSGuaranteed, v1.PodQOSBurstable, v1.PodQOSBestEffort:
		return of
	default:
		return QOS(pod)
	}
}

// qos accumulates the requests and limits of a pod.
type qos struct {
	any        bool // any request or limit
	guaranteed bool // everything counted so far has limits for both, and requests like them
}

func (q *qos) class() v1.PodQOSClass {
	switch {
	case !q.any:
		return v1.PodQOSBestEffort
	case q.guaranteed:
		return v1.PodQOSGuaranteed
	default:
		return v1.PodQOSBurstable
	}
}

func (q *qos) count(r *v1.ResourceRequirements) {
	for _, name := range [...]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		request, limit := r.Requests[name], r.Limits[name]
		if request.Sign() > 0 || limit.Sign() > 0 {
			q.any = true
		}
		if limit.Sign() <= 0 || request.Cmp(limit) != 0 {
			q.guaranteed = false
		}
	}
}
