package podcgroup

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// PIDs is the resource of processes and threads; only reservations use it.
const PIDs = v1.ResourceName("pid")

// Share is a pod's contribution to the cgroup of its class.
type Share struct {
	Class    v1.PodQOSClass
	MilliCPU int64
	Memory   int64
}

// ShareOf is the share of a pod, by its requests.
func ShareOf(pod *v1.Pod) Share {
	r := podspec.Requests(pod)
	return Share{Class: podspec.Class(pod), MilliCPU: r.Cpu().MilliValue(), Memory: r.Memory().Value()}
}

// ClassValues are the limits of the cgroups of classes. Top is what depends on pods of the cgroup of all pods, which is
// that of the Guaranteed.
type ClassValues struct{ Top, Burstable, BestEffort Values }

// Equal says whether both are the same. They have no huge pages.
func (c ClassValues) Equal(o ClassValues) bool {
	same := func(a, b Values) bool {
		return a.CPUShares == b.CPUShares && a.Memory == b.Memory && a.MemoryMin == b.MemoryMin && a.MemoryLow == b.MemoryLow
	}
	return same(c.Top, o.Top) && same(c.Burstable, o.Burstable) && same(c.BestEffort, o.BestEffort)
}

// Sum is the sum of the shares of all pods of a class.
type Sum struct{ MilliCPU, Memory int64 }

// Sums are those of the classes with requests.
type Sums struct{ Guaranteed, Burstable Sum }

// Add adds a pod, or subtracts it (times -1).
func (s *Sums) Add(p Share, times int64) {
	of := &s.Burstable
	switch p.Class {
	case v1.PodQOSBestEffort:
		return
	case v1.PodQOSGuaranteed:
		of = &s.Guaranteed
	case v1.PodQOSBurstable:
	}
	of.MilliCPU += times * p.MilliCPU
	of.Memory += times * p.Memory
}

// ClassValues are the limits of the classes for these sums of requests. The burstable class weighs
// as much as its pods' requests, BestEffort gets what is left. With MemoryReserved, lower classes
// can't use the memory that higher ones requested.
func (s *Settings) ClassValues(sums Sums) ClassValues {
	c := ClassValues{
		Burstable:  Values{CPUShares: Shares(sums.Burstable.MilliCPU)},
		BestEffort: Values{CPUShares: MinShares},
	}
	if s.MemoryReserved > 0 {
		all := s.allowed()
		left := all.Memory().Value() - sums.Guaranteed.Memory*s.MemoryReserved/100
		c.Burstable.Memory = max(left, 1)
		c.BestEffort.Memory = max(left-sums.Burstable.Memory*s.MemoryReserved/100, 1)
	}
	s.Policy.protectClasses(&c, &sums)
	return c
}

// TopValues are the limits of all pods together. Without Enforce that is the node's whole capacity,
// because the kernel's default is the weight of one CPU. Without MemoryQoS no memory is protected: what an agent with
// it has set in the cgroups below has no effect then (cgroup-v2.rst, memory.min).
func (s *Settings) TopValues() Values {
	v := reservation(s.allowed(), false)
	if !s.Policy.QoS {
		v.MemoryMin, v.MemoryLow = none, none
	}
	return v
}

// On are the settings on a machine that has this now; what is not in the lists has not changed.
func (s *Settings) On(capacity, allocatable v1.ResourceList) Settings {
	out := *s
	out.Capacity = s.Capacity.DeepCopy()
	for name := range s.Capacity { // order-free: by key
		if q, is := capacity[name]; is {
			out.Capacity[name] = q
		}
	}
	if q, is := capacity[v1.ResourceMemory]; is && s.Policy.Capacity > 0 {
		out.Policy.Capacity = q.Value()
	}
	if q, is := allocatable[v1.ResourceMemory]; is && s.Policy.Allocatable > 0 {
		out.Policy.Allocatable = q.Value()
	}
	return out
}

// SameMachine says whether both are for machines that have the same.
func (s *Settings) SameMachine(o *Settings) bool {
	return podspec.SameResources(s.Capacity, o.Capacity) && s.Policy == o.Policy
}

// allowed is what pods may use, enforced by the kernel. Eviction thresholds are not subtracted, so
// that pods can be evicted before the kernel kills.
func (s *Settings) allowed() v1.ResourceList {
	out := s.Capacity.DeepCopy()
	if !s.Enforce {
		return out
	}
	for name, q := range s.Reserved { // order-free: by key
		if have, ok := out[name]; ok {
			have.Sub(q)
			if have.Sign() < 0 {
				have.Set(0)
			}
			out[name] = have
		}
	}
	return out
}

// ReservedValues are the limits of the cgroup that a reservation is for (systemReservedCgroup,
// kubeReservedCgroup). compressible leaves out resources whose lack kills a process. With MemoryQoS, what is reserved
// is not reclaimed.
func (s *Settings) ReservedValues(reserved v1.ResourceList, compressible bool) Values {
	v := reservation(reserved, compressible)
	if s.Policy.QoS {
		v.MemoryMin = v.Memory
	}
	return v
}

func reservation(list v1.ResourceList, compressible bool) Values {
	var v Values
	if q, ok := list[v1.ResourceCPU]; ok {
		v.CPUShares = Shares(q.MilliValue())
	}
	if compressible {
		return v
	}
	v.Memory = list.Memory().Value()
	if q, ok := list[PIDs]; ok {
		v.PIDs = q.Value()
	}
	return v
}
