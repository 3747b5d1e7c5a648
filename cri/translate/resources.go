package translate

import (
	"maps"
	"strconv"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
)

// linuxResources are the controls that sandboxes and containers share. An unset request follows
// the limit.
func linuxResources(n *Node, requests, limits v1.ResourceList) *runtimeapi.LinuxContainerResources {
	cpu := limits.Cpu()
	if q, ok := requests[v1.ResourceCPU]; ok {
		cpu = &q
	}
	r := &runtimeapi.LinuxContainerResources{
		CpuShares:          int64(podcgroup.Shares(cpu.MilliValue())),
		MemoryLimitInBytes: limits.Memory().Value(),
	}
	if !n.NoCPUQuota {
		r.CpuPeriod = n.quotaPeriod()
		r.CpuQuota = podcgroup.Quota(limits.Cpu().MilliValue(), r.CpuPeriod)
	}
	return r
}

// containerResources are the controls of one container.
func containerResources(n *Node, pod *v1.Pod, c *v1.Container) *runtimeapi.LinuxContainerResources {
	s := podcgroup.Settings{
		NoCPUQuota: n.NoCPUQuota, CPUPeriod: n.CPUQuotaPeriod.Microseconds(), NoQuotaOfOwnCPUs: n.NoQuotaOfOwnCPUs,
	}
	return containerControls(n, pod, c, s.ContainerResources(pod, c))
}

// containerControls are those of a container with this CPU and memory.
func containerControls(
	n *Node, pod *v1.Pod, c *v1.Container, to observed.Resources,
) *runtimeapi.LinuxContainerResources {
	r := &runtimeapi.LinuxContainerResources{
		CpuShares: to.CPUShares, CpuQuota: to.CPUQuota, CpuPeriod: to.CPUPeriod, MemoryLimitInBytes: to.Memory,
		OomScoreAdj: oomScoreAdj(n, pod, c), HugepageLimits: hugepageLimits(n, containerLimits(pod, c)),
	}
	if n.SwapAccounting && !n.CgroupV2 {
		// Memory and swap together: equal to the memory limit means no swap.
		r.MemorySwapLimitInBytes = r.MemoryLimitInBytes
	}
	r.Unified = unified(n, pod, c, to.Memory)
	return r
}

// containerLimits are a container's limits. Without one of its own it may use all of its pod's.
// (KEP-2837)
func containerLimits(pod *v1.Pod, c *v1.Container) v1.ResourceList {
	if pod.Spec.Resources == nil {
		return c.Resources.Limits
	}
	limits := maps.Clone(pod.Spec.Resources.Limits)
	if limits == nil {
		return c.Resources.Limits
	}
	for name, q := range c.Resources.Limits {
		if !q.IsZero() {
			limits[name] = q
		}
	}
	return limits
}

// Update requests other CPU and memory than the spec's for a container, or other CPUs to run on. Its other limits
// follow the spec.
func Update(n *Node, u *port.UpdateContainer) *runtimeapi.UpdateContainerResourcesRequest {
	if at := u.Placement; at != nil {
		// Runtimes leave what is not set.
		return &runtimeapi.UpdateContainerResourcesRequest{ContainerId: u.ID, Linux: &runtimeapi.LinuxContainerResources{
			CpusetCpus: at.CPUs, CpusetMems: at.Mems,
		}}
	}
	to := u.To
	if n.NoCPUQuota {
		to.CPUPeriod, to.CPUQuota = 0, 0
	}
	r := containerControls(n, u.Pod, u.Container, to)
	if !n.NoCPUQuota && to.CPUQuota == 0 && !u.Container.Resources.Limits.Cpu().IsZero() {
		r.CpuQuota = -1 // it had one before it had exclusive CPUs
	}
	// They were set at creation, and not every runtime can change them by this call.
	r.HugepageLimits = nil
	return &runtimeapi.UpdateContainerResourcesRequest{ContainerId: u.ID, Linux: r}
}

// UpdateSandbox announces a pod's new cgroup limits to the runtime: the pod's own, and separately
// the overhead of its RuntimeClass.
func UpdateSandbox(n *Node, u *port.UpdateSandbox) *runtimeapi.UpdatePodSandboxResourcesRequest {
	to := u.To
	if extra, has := u.Pod.Spec.Overhead[v1.ResourceCPU]; has {
		const thousandths, shares = 1000, 1024 // of a CPU
		to.CPUShares = int64(podcgroup.Shares(to.CPUShares*thousandths/shares - extra.MilliValue()))
		if to.CPUQuota > 0 {
			to.CPUQuota -= podcgroup.Quota(extra.MilliValue(), to.CPUPeriod)
		}
	}
	if extra, has := u.Pod.Spec.Overhead[v1.ResourceMemory]; has && to.Memory > 0 {
		to.Memory -= extra.Value()
	}
	return &runtimeapi.UpdatePodSandboxResourcesRequest{
		PodSandboxId: u.ID, Overhead: overhead(n, u.Pod),
		Resources: &runtimeapi.LinuxContainerResources{
			CpuShares: to.CPUShares, CpuQuota: to.CPUQuota, CpuPeriod: to.CPUPeriod, MemoryLimitInBytes: to.Memory,
		},
	}
}

// unified are the files of cgroup v2 without a CRI field of their own, for a container with this memory limit.
// (Documentation/admin-guide/cgroup-v2.rst)
func unified(n *Node, pod *v1.Pod, c *v1.Container, limit int64) map[string]string {
	if !n.CgroupV2 {
		return nil
	}
	files := map[string]string{}
	if n.SwapAccounting {
		files["memory.swap.max"] = strconv.FormatInt(n.Memory.ContainerSwap(pod, c), 10)
	}
	if n.OOMKillGroup {
		files["memory.oom.group"] = "1"
	}
	files["memory.high"] = "max" // also of a container that was made while MemoryQoS was on
	if !n.Memory.QoS {
		return files
	}
	if c.Resources.Limits.Memory().IsZero() {
		limit = 0 // it is the pod's
	}
	least, low, high := n.Memory.ContainerMemory(pod, c, limit)
	files["memory.min"], files["memory.low"] = strconv.FormatInt(least, 10), strconv.FormatInt(low, 10)
	if high != podcgroup.NoThrottling {
		files["memory.high"] = strconv.FormatInt(high, 10)
	}
	return files
}

// hugepageLimits has one limit for each page size of the kernel, so that a container cannot use
// sizes that it did not request.
func hugepageLimits(n *Node, limits v1.ResourceList) []*runtimeapi.HugepageLimit {
	var out []*runtimeapi.HugepageLimit
	for _, size := range n.HugePageSizes {
		l := &runtimeapi.HugepageLimit{PageSize: size}
		for name, q := range limits {
			if podcgroup.PageSize(name) == size {
				l.Limit = uint64(max(q.Value(), 0))
			}
		}
		out = append(out, l)
	}
	return out
}

// sandboxResources are the sums over the pod's containers, for runtimes that size a sandbox (a
// virtual machine) by them.
func sandboxResources(n *Node, pod *v1.Pod) *runtimeapi.LinuxContainerResources {
	r := linuxResources(n,
		podspec.Together(&pod.Spec, func(r *v1.ResourceRequirements) v1.ResourceList { return r.Requests }),
		podspec.Together(&pod.Spec, func(r *v1.ResourceRequirements) v1.ResourceList { return r.Limits }))
	if n.NoQuotaOfOwnCPUs && cpus.ExclusiveOfPod(pod, false) > 0 {
		r.CpuQuota = -1 // as its cgroup
	}
	return r
}

// overhead are the RuntimeClass's extra resources, as request and limit.
func overhead(n *Node, pod *v1.Pod) *runtimeapi.LinuxContainerResources {
	if len(pod.Spec.Overhead) == 0 {
		return &runtimeapi.LinuxContainerResources{}
	}
	return linuxResources(n, pod.Spec.Overhead, pod.Spec.Overhead)
}
