package podcgroup

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Resources converts the limits to the runtime's form; values that are left unchanged become no
// limit.
func (v Values) Resources() observed.Resources {
	r := observed.Resources{CPUShares: int64(v.CPUShares), Memory: max(v.Memory, 0)}
	if v.CPUQuota > 0 {
		r.CPUQuota, r.CPUPeriod = v.CPUQuota, int64(v.CPUPeriod)
	}
	return r
}

// Over are the limits of a cgroup that had others and gets these: zero values keep the old one.
func (v Values) Over(had Values) Values {
	if v.CPUShares == 0 {
		v.CPUShares = had.CPUShares
	}
	if v.CPUQuota == 0 {
		v.CPUQuota, v.CPUPeriod = had.CPUQuota, had.CPUPeriod
	}
	if v.Memory == 0 {
		v.Memory = had.Memory
	}
	if v.MemoryMin == 0 {
		v.MemoryMin = had.MemoryMin
	}
	if v.MemoryLow == 0 {
		v.MemoryLow = had.MemoryLow
	}
	if v.PIDs == 0 {
		v.PIDs = had.PIDs
	}
	if len(v.HugePages) == 0 {
		v.HugePages = had.HugePages
	}
	return v
}

// Resized are the limits for the cgroup of a pod that had others: no limit is set explicitly. What is protected of its
// memory follows the pod.
func (s *Settings) Resized(pod *v1.Pod, r observed.Resources) Values {
	v := Values{CPUShares: uint64(r.CPUShares), CPUQuota: r.CPUQuota, CPUPeriod: uint64(r.CPUPeriod), Memory: r.Memory}
	if v.CPUQuota == 0 {
		v.CPUQuota = -1
	}
	if v.Memory == 0 {
		v.Memory = -1
	}
	requests := podspec.Requests(pod)
	s.Policy.protectPod(&v, podspec.Class(pod), requests.Memory().Value())
	return v
}

// PodResources are the CPU and memory of a whole pod, as in PodValues.
func (s *Settings) PodResources(pod *v1.Pod) observed.Resources {
	return s.PodValues(pod).Resources()
}

// ContainerResources are the CPU and memory of one container. A missing request defaults to the
// limit, a missing limit to the pod's (KEP-2837).
func (s *Settings) ContainerResources(pod *v1.Pod, c *v1.Container) observed.Resources {
	limit := func(name v1.ResourceName) int64 {
		q := c.Resources.Limits[name]
		if q.IsZero() && pod.Spec.Resources != nil {
			q = pod.Spec.Resources.Limits[name]
		}
		if name == v1.ResourceCPU {
			return q.MilliValue()
		}
		return q.Value()
	}
	cpu := limit(v1.ResourceCPU)
	weight := cpu
	if q, ok := c.Resources.Requests[v1.ResourceCPU]; ok {
		weight = q.MilliValue()
	}
	r := observed.Resources{CPUShares: int64(Shares(weight)), Memory: limit(v1.ResourceMemory)}
	if s.NoCPUQuota {
		return r
	}
	// As a runtime reports it, also of a container that had a quota before it had exclusive CPUs.
	r.CPUPeriod = s.period()
	if own := s.NoQuotaOfOwnCPUs && cpus.Exclusive(pod, c, false) > 0; !own {
		r.CPUQuota = Quota(cpu, r.CPUPeriod)
	}
	return r
}
