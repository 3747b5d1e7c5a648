package podcgroup

import (
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Settings are what a node's configuration says of its cgroups.
type Settings struct {
	// Root is the cgroup that all pods are below of (cgroupRoot), in the way the
	// driver writes it; the root of the hierarchy if empty.
	Root   string
	Driver Driver
	// NoCPUQuota leaves CPU limits out (cpuCFSQuota: false). CPUPeriod is what a
	// quota is counted in, in microseconds (cpuCFSQuotaPeriod); 100 ms if zero.
	NoCPUQuota bool
	CPUPeriod  int64
	// PodPIDs is how many processes a pod may have (podPidsLimit); no limit if not
	// positive.
	PodPIDs int64
	// HugePageSizes are those of the kernel, as it writes them: 2MB, 1GB.
	HugePageSizes []string
	// Capacity is what the node has, Reserved what of it pods may not have. It is
	// held to, for all pods together, with Enforce (enforceNodeAllocatable: pods).
	Capacity, Reserved v1.ResourceList
	Enforce            bool
	// MemoryReserved is how much of what pods of the better classes ask for those
	// of the worse may not use, in percent (qosReserved: memory).
	MemoryReserved int64
}

// Values are the limits of a cgroup. What is zero is left as it is.
type Values struct {
	// CPUShares is the weight among its siblings, 1024 for a CPU.
	CPUShares uint64
	// CPUQuota is the time that it may run in each CPUPeriod, in microseconds; -1
	// for as long as it likes.
	CPUQuota  int64
	CPUPeriod uint64
	// Memory in bytes, -1 for no limit.
	Memory int64
	// PIDs is how many processes and threads there may be.
	PIDs int64
	// HugePages are limits in bytes, by the kernel's name of the size, sorted.
	HugePages []HugePages
}

// HugePages is how many bytes of pages of one size may be used.
type HugePages struct {
	Size  string // 2MB
	Limit uint64
}

// Bounds of the kernel's controllers (sched-bwc, cgroup v1 cpu.shares).
const (
	MinShares     = 2
	MaxShares     = 262144
	minQuota      = 1000
	defaultPeriod = 100_000
	// oneCPU is the shares of a CPU.
	oneCPU = 1024
)

// Shares is the weight of a CPU request: 1024 for a CPU.
func Shares(milliCPU int64) uint64 {
	return uint64(min(max(milliCPU*oneCPU/1000, MinShares), MaxShares))
}

// Quota is the CPU time of a limit in a period, both in microseconds; 0 is no
// limit.
func Quota(milliCPU, period int64) int64 {
	if milliCPU == 0 {
		return 0
	}
	return max(milliCPU*period/1000, minQuota)
}

// Weight is what cgroup v2 has instead of shares, 1 to 10000: the same part of
// its range (KEP-2254). It compares pods and classes with each other; for
// containers the runtime has a formula of its own.
func Weight(shares uint64) uint64 {
	shares = min(max(shares, MinShares), MaxShares)
	return 1 + (shares-MinShares)*9999/(MaxShares-MinShares)
}

// PodValues are the limits of a pod as a whole: what its containers ask for
// together, or what the pod itself says (spec.resources, KEP-2837), and the
// overhead of its RuntimeClass. There is a limit for CPU or memory if every
// container has one, or the pod.
func (s *Settings) PodValues(pod *v1.Pod) Values {
	requests, limits := podspec.Requests(pod), podspec.Limits(pod)
	v := Values{CPUShares: MinShares}
	if s.PodPIDs > 0 {
		v.PIDs = s.PodPIDs
	}
	v.HugePages = s.hugePages(requests)
	class := podspec.Class(pod)
	if class == v1.PodQOSBestEffort {
		return v
	}
	v.CPUShares = Shares(requests.Cpu().MilliValue())
	if milli := limits.Cpu().MilliValue(); milli > 0 && limited(pod, v1.ResourceCPU) {
		v.CPUPeriod = uint64(s.period())
		v.CPUQuota = Quota(milli, s.period())
		if s.NoCPUQuota {
			v.CPUQuota = -1
		}
	}
	if limited(pod, v1.ResourceMemory) {
		v.Memory = limits.Memory().Value()
	}
	return v
}

func (s *Settings) period() int64 {
	if s.CPUPeriod > 0 {
		return s.CPUPeriod
	}
	return defaultPeriod
}

// limited says whether nothing of the pod is without a limit for a resource.
func limited(pod *v1.Pod, name v1.ResourceName) bool {
	if r := pod.Spec.Resources; r != nil {
		if q := r.Limits[name]; q.Sign() > 0 {
			return true
		}
	}
	for c := range podspec.Lasting(&pod.Spec) {
		if q := c.Resources.Limits[name]; q.Sign() <= 0 {
			return false
		}
	}
	return true
}

// hugePages has a limit for each size of the kernel: what is not asked for can't
// be used.
func (s *Settings) hugePages(requests v1.ResourceList) []HugePages {
	out := make([]HugePages, 0, len(s.HugePageSizes))
	for _, size := range s.HugePageSizes {
		p := HugePages{Size: size}
		for name, q := range requests { // order-free: a sum
			if PageSize(name) == size {
				p.Limit += uint64(max(q.Value(), 0))
			}
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b HugePages) int { return strings.Compare(a.Size, b.Size) })
	return out
}

// PageSize turns hugepages-2Mi into 2MB, as the kernel writes it; empty if name
// is none.
func PageSize(name v1.ResourceName) string {
	s, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
	if !ok {
		return ""
	}
	q, err := resource.ParseQuantity(s)
	if err != nil {
		return ""
	}
	size, unit := q.Value(), 0
	for size >= 1024 && size%1024 == 0 && unit < 3 {
		size, unit = size/1024, unit+1
	}
	return strconv.FormatInt(size, 10) + [...]string{"B", "KB", "MB", "GB"}[unit]
}
