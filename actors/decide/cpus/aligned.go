package cpus

import (
	v1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/topology"
)

// Boundary is a kind of part of the machine. What a container has is aligned to it if no part is used in pieces, or if
// all comes from one of them.
type Boundary string

// The boundaries, as labels of the kubelet's metrics kubelet_container_aligned_compute_resources_count and
// kubelet_container_aligned_compute_resources_failure_count.
const (
	PhysicalCPU Boundary = "physical_cpu"
	UncoreCache Boundary = "uncore_cache"
	NUMANode    Boundary = "numa_node"
)

// Alignment is that of containers or of whole pods, which Scope says as topologyManagerScope does.
type Alignment struct {
	Scope    string
	Boundary Boundary
}

var (
	toCores = Alignment{kubelet.ContainerTopologyManagerScope, PhysicalCPU}
	toCache = Alignment{kubelet.ContainerTopologyManagerScope, UncoreCache}
)

// Alignments are those that are counted with the settings of the node, and those of them that pods are refused for. As
// with the kubelet, they are the same whatever the options of the policies are.
func (r *Rules) Alignments() (counted, refused []Alignment) {
	if r.static {
		counted, refused = append(counted, toCores, toCache), append(refused, toCores)
	}
	if r.Aligns() {
		for _, scope := range []string{kubelet.ContainerTopologyManagerScope, kubelet.PodTopologyManagerScope} {
			to := Alignment{scope, NUMANode}
			counted, refused = append(counted, to), append(refused, to)
		}
	}
	return counted, refused
}

// Aligned is how often a pod has what it asks for aligned: had are the CPUs of its containers before [Rules.Place], own
// those after it. A pod that is refused has nothing.
//
//	physical_cpu  each container with exclusive CPUs, with full-pcpus-only
//	uncore_cache  each container with new CPUs that share their last level cache
//	numa_node     each container, or the pod, with topologyManagerPolicy single-numa-node, unless the pod runs already:
//	              Place does not ask where it has its CPUs
func (r *Rules) Aligned(pod *v1.Pod, runs bool, had, own map[string]cpuset.CPUSet) map[Alignment]int {
	out := map[Alignment]int{}
	for name, set := range own { // order-free: sums
		if r.options.FullPCPUsOnly && WholeCores(r.machine, set) {
			out[toCores]++
		}
		if _, before := had[name]; !before && OneCache(r.machine, set) {
			out[toCache]++
		}
	}
	if n := len(topology.Groups(r.scope, &pod.Spec)); n > 0 && r.policy.OneNode() && !runs {
		out[Alignment{r.scope, NUMANode}] = n
	}
	return out
}

// Misaligned is what a pod was refused for; the zero value if not for an alignment. With full-pcpus-only that is so
// also if there are too few CPUs, as with the kubelet.
func (r *Rules) Misaligned(why *admit.Rejection) Alignment {
	switch {
	case why == nil:
	case why.Of == v1.ResourceCPU && r.options.FullPCPUsOnly:
		return toCores
	case why.Reason == topology.AffinityError && r.policy.OneNode():
		return Alignment{r.scope, NUMANode}
	}
	return Alignment{}
}
