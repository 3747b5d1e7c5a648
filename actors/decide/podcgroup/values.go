package podcgroup

import (
	"math"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Settings are the node's configuration of cgroups.
type Settings struct {
	// Root is the cgroup that contains those of all pods (cgroupRoot), in the driver's notation; the
	// root of the hierarchy if empty.
	Root   string
	Driver Driver
	// NoCPUQuota disables CPU limits (cpuCFSQuota: false). CPUPeriod is the period of a quota, in
	// microseconds (cpuCFSQuotaPeriod); 100 ms if zero.
	NoCPUQuota bool
	CPUPeriod  int64
	// NoQuotaOfOwnCPUs: containers with exclusive CPUs have no quota, and neither have their pods (feature gate
	// DisableCPUQuotaWithExclusiveCPUs, with cpuManagerPolicy static). A quota would throttle what nobody else can use.
	NoQuotaOfOwnCPUs bool
	// PodPIDs is the maximum number of processes of a pod (podPidsLimit); no limit if not positive.
	PodPIDs int64
	// HugePageSizes are the kernel's sizes, in its notation: 2MB, 1GB.
	HugePageSizes []string
	// Capacity is the node's capacity, Reserved the part that pods may not use. With Enforce this is
	// enforced for all pods together (enforceNodeAllocatable: pods).
	Capacity, Reserved v1.ResourceList
	Enforce            bool
	// MemoryReserved is the percentage of the memory requests of higher classes that lower classes may
	// not use (qosReserved: memory).
	MemoryReserved int64
	// Policy is how the memory of pods is treated.
	Policy MemoryPolicy
}

// Values are the limits of a cgroup. Zero leaves a limit unchanged.
type Values struct {
	// CPUShares is the weight among its siblings, 1024 for a CPU.
	CPUShares uint64
	// CPUQuota is the CPU time per CPUPeriod, in microseconds; -1 for no limit.
	CPUQuota  int64
	CPUPeriod uint64
	// Memory in bytes, -1 for no limit.
	Memory int64
	// MemoryMin and MemoryLow are bytes that the kernel never reclaims, and does only if there is no other; -1 for none.
	// They exist with cgroup v2.
	MemoryMin, MemoryLow int64
	// PIDs is the maximum number of processes and threads.
	PIDs int64
	// HugePages are limits in bytes, by the kernel's name of the size, sorted.
	HugePages []HugePages
}

// HugePages is the limit for pages of one size, in bytes.
type HugePages struct {
	Size  string // 2MB
	Limit uint64
}

// Bounds of the kernel's controllers (sched-bwc, cgroup v1 cpu.shares).
const (
	MinShares     = 2
	MaxShares     = 262144
	minQuota      = 1000
	maxQuota      = 1<<44 - 1
	defaultPeriod = 100_000
	// oneCPU is the shares of a CPU.
	oneCPU = 1024
)

// Shares is the weight of a CPU request: 1024 for a CPU.
func Shares(milliCPU int64) uint64 {
	return uint64(min(max(min(milliCPU, MaxShares)*oneCPU/1000, MinShares), MaxShares))
}

// Quota is the CPU time of a limit in a period, both in microseconds; 0 is no
// limit.
func Quota(milliCPU, period int64) int64 {
	if milliCPU == 0 {
		return 0
	}
	return min(max(min(milliCPU, math.MaxInt64/max(period, 1))*period/1000, minQuota), maxQuota)
}

// Weight converts shares to the weight of cgroup v2, 1 to 10000, by position in the range
// (KEP-2254). It is used for pods and classes; runtimes have their own formula for containers.
func Weight(shares uint64) uint64 {
	shares = min(max(shares, MinShares), MaxShares)
	return 1 + (shares-MinShares)*9999/(MaxShares-MinShares)
}

// PodValues are the limits of a whole pod: the sum of its containers, or its own resources
// (spec.resources, KEP-2837), and the overhead of its RuntimeClass. CPU or memory is limited only
// if the pod or every container has a limit.
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
		if s.NoCPUQuota || s.NoQuotaOfOwnCPUs && cpus.ExclusiveOfPod(pod, false) > 0 {
			v.CPUQuota = -1
		}
	}
	if limited(pod, v1.ResourceMemory) {
		v.Memory = limits.Memory().Value()
	}
	s.Policy.protectPod(&v, class, requests.Memory().Value())
	return v
}

func (s *Settings) period() int64 {
	if s.CPUPeriod > 0 {
		return s.CPUPeriod
	}
	return defaultPeriod
}

// limited says whether the pod, or each of its containers, has a limit for a resource.
func limited(pod *v1.Pod, name v1.ResourceName) bool {
	return podspec.Limited(pod, name, podspec.Init, podspec.Sidecar, podspec.Main)
}

// hugePages sets a limit for each of the kernel's sizes: pages that are not requested can't be
// used.
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

// PageSize converts hugepages-2Mi to the kernel's 2MB; empty if name is not such a resource.
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
