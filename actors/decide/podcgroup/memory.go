package podcgroup

import (
	"math"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// MemoryPolicy is how the kernel treats the memory of pods, beyond their limits. The zero value is none of it, and no
// swap. It holds only with cgroup v2.
type MemoryPolicy struct {
	// QoS: containers are slowed down before they reach their limit (feature gate MemoryQoS, KEP-2570). Throttling is
	// where between request and limit that begins (memoryThrottlingFactor).
	QoS        bool
	Throttling float64
	// Tiered: with QoS, requested memory is not reclaimed: never that of Guaranteed pods, and that of Burstable pods
	// only if there is no other (memoryReservationPolicy: TieredReservation).
	Tiered bool
	// Allocatable is what pods may have of the node's memory, in bytes. It stands for the limit of a container without
	// one.
	Allocatable int64
	// PageSize is the kernel's, in bytes; 4096 if zero.
	PageSize int64

	// LimitedSwap gives Burstable pods a share of the swap (memorySwap.swapBehavior, KEP-2400).
	LimitedSwap bool
	// Capacity and Swap are the node's memory and swap, in bytes.
	Capacity, Swap int64
}

// NoThrottling is the memory.high of a container that is not slowed down.
const NoThrottling = int64(-1)

// ContainerMemory are the bytes of memory.min, memory.low and memory.high of a container with QoS. limit is its own
// memory limit, 0 for none: that of its pod does not count, as in the kubelet.
func (m *MemoryPolicy) ContainerMemory(pod *v1.Pod, c *v1.Container, limit int64) (least, low, high int64) {
	request := c.Resources.Requests.Memory().Value()
	if m.Tiered {
		if podspec.Class(pod) == v1.PodQOSGuaranteed {
			least = request
		} else {
			low = request
		}
	}
	if request == limit {
		return least, low, NoThrottling
	}
	most := limit
	if most == 0 {
		most = m.Allocatable
	}
	page := m.PageSize
	if page == 0 {
		page = 4096
	}
	high = int64(math.Floor(float64(request)+float64(most-request)*m.Throttling)) / page * page
	if most == 0 || high <= request {
		high = NoThrottling
	}
	return least, low, high
}

// ContainerSwap is how many bytes a container may swap: as much of the node's swap as it requests of the node's
// memory. It is 0 for Guaranteed and BestEffort pods, for critical ones, and for a container that requests all that it
// may have, or nothing.
func (m *MemoryPolicy) ContainerSwap(pod *v1.Pod, c *v1.Container) int64 {
	request, limit := c.Resources.Requests.Memory(), c.Resources.Limits.Memory()
	if !m.LimitedSwap || podspec.Class(pod) != v1.PodQOSBurstable || podspec.Critical(pod) || request.Cmp(*limit) == 0 ||
		m.Capacity <= 0 || request.Value() > m.Capacity {
		return 0
	}
	return int64(float64(request.Value()) / float64(m.Capacity) * float64(m.Swap))
}

// protectPod sets what is protected of a pod's memory.
func (m *MemoryPolicy) protectPod(v *Values, class v1.PodQOSClass, request int64) {
	if !m.QoS {
		return
	}
	v.MemoryMin, v.MemoryLow = none, none
	switch {
	case !m.Tiered || request <= 0:
	case class == v1.PodQOSGuaranteed:
		v.MemoryMin = request
	default:
		v.MemoryLow = request
	}
}

// protectClasses sets what is protected of the classes. What is protected in a cgroup is limited by what is protected
// in each above it (cgroup-v2.rst), so the cgroup of all pods has the sums. The kubelet sets no memory.low there.
func (m *MemoryPolicy) protectClasses(c *ClassValues, sums *Sums) {
	if !m.QoS {
		return
	}
	c.Top.MemoryMin, c.Top.MemoryLow, c.Burstable.MemoryLow = none, none, none
	if !m.Tiered {
		return
	}
	if all := sums.Guaranteed.Memory + sums.Burstable.Memory; all > 0 {
		c.Top.MemoryMin = all
	}
	if low := sums.Burstable.Memory; low > 0 {
		c.Top.MemoryLow, c.Burstable.MemoryLow = low, low
	}
}

// none is no protection, explicitly.
const none = -1
