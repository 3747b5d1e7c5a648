package translate

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// oom_score_adj of containers by the pod's quality of service: the kernel kills
// the highest first (Kubernetes docs: node-pressure eviction, "Node out of
// memory behavior").
const (
	oomGuaranteed = -997
	oomBestEffort = 1000
	oomBurstMin   = 1000 + oomGuaranteed // above any guaranteed one at full use
	oomBurstMax   = oomBestEffort - 1
)

// systemNodeCritical is the most critical priority class of a node, and systemCriticalPriority
// the lowest priority of critical classes.
const (
	systemNodeCritical     = "system-node-critical"
	systemCriticalPriority = 2_000_000_000
)

func oomScoreAdj(n *Node, pod *v1.Pod, c *v1.Container) int64 {
	adj := oomByQOS(n, pod, c)
	if n.OOMScoreAdjFloor != nil {
		adj = max(adj, *n.OOMScoreAdjFloor)
	}
	return adj
}

func oomByQOS(n *Node, pod *v1.Pod, c *v1.Container) int64 {
	if pod.Spec.PriorityClassName == systemNodeCritical && isCritical(pod) {
		return oomGuaranteed
	}
	switch podspec.Class(pod) {
	case v1.PodQOSGuaranteed:
		return oomGuaranteed
	case v1.PodQOSBestEffort:
		return oomBestEffort
	case v1.PodQOSBurstable:
	}
	if n.MemoryCapacity == 0 {
		return oomBurstMax
	}
	// A container that requests a tenth of the memory gets 900. Above its request it is a
	// candidate like any other.
	share := unallocatedMemory(pod)
	request := c.Resources.Requests.Memory().Value() + share
	if podspec.IsSidecar(c) {
		// A sidecar serves the main containers, so it is not killed before them.
		request = max(request, smallestRequest(pod)+share)
	}
	return min(max(1000-1000*request/n.MemoryCapacity, oomBurstMin), oomBurstMax)
}

func isCritical(pod *v1.Pod) bool {
	return podspec.Static(pod) || podspec.Mirror(pod) || pod.Spec.Priority != nil &&
		*pod.Spec.Priority >= systemCriticalPriority
}

// unallocatedMemory is each container's share of the pod-level request beyond its containers'
// requests. Init containers that have ended when the others run count among the sharers.
// (KEP-2837, OOM score adjustment)
func unallocatedMemory(pod *v1.Pod) int64 {
	if pod.Spec.Resources == nil {
		return 0
	}
	whole, ok := pod.Spec.Resources.Requests[v1.ResourceMemory]
	if !ok {
		return 0
	}
	sum := podspec.Peak(&pod.Spec, func(c *v1.Container) v1.ResourceList { return c.Resources.Requests })
	count := int64(len(pod.Spec.Containers) + len(pod.Spec.InitContainers))
	return max(whole.Value()-sum.Memory().Value(), 0) / max(count, 1)
}

func smallestRequest(pod *v1.Pod) int64 {
	smallest := int64(0)
	for i := range pod.Spec.Containers {
		if v := pod.Spec.Containers[i].Resources.Requests.Memory().Value(); i == 0 || v < smallest {
			smallest = v
		}
	}
	return smallest
}
