package assignments

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/memory"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Counts is told what was decided, for metrics. It must not block.
type Counts interface {
	// Alignments is told at each start of the actor which alignments can be in decisions, and which of them as
	// Decision.Misaligned.
	Alignments(counted, refused []cpus.Alignment)
	// Decided is told of each pod that has got what it asks for, or was refused.
	Decided(Decision)
	// Shared is told how many of the CPUs that containers can have alone nobody has alone, and how many containers have by
	// NUMA node, at the start and after each change. It is not told where no container has exclusive CPUs.
	Shared(shared int, own map[int]int)
	// Allocated is told how long a device plugin took to allocate devices of a resource for a container.
	Allocated(resource v1.ResourceName, took time.Duration)
}

// Decision is what was decided of one pod.
type Decision struct {
	// CPUs and Memory are how many containers asked for some of their own.
	CPUs, Memory int
	// Aligned: the topology manager had to agree.
	Aligned bool
	// Alignments is how often what the pod has got is aligned. It is nil if the pod was refused.
	Alignments map[cpus.Alignment]int
	// Misaligned is what the pod was refused for, the zero value if not for an alignment.
	Misaligned cpus.Alignment
	// Rejected is nil if the pod has got all.
	Rejected *admit.Rejection
	// Took is how long it took, with what device plugins were asked.
	Took time.Duration
}

func (a *assignments) count(now time.Time, q *request, why *admit.Rejection) {
	if a.deps.Counts == nil || q.counted {
		return
	}
	d := a.wants(q.Pod)
	d.Aligned, d.Rejected, d.Misaligned = a.deps.Rules.Aligns(), why, a.deps.Rules.Misaligned(why)
	d.Took = now.Sub(q.since)
	if why == nil {
		d.Alignments = q.aligned
	}
	a.deps.Counts.Decided(d)
}

// countRefused counts a pod that the node has too little for, as if it had asked: a kubelet has its managers decide
// before it looks whether a pod fits.
func (a *assignments) countRefused(m Refused) {
	if a.deps.Counts == nil {
		return
	}
	d, why := a.wants(m.Pod), *m.Why
	_, noCPU := why.Short[v1.ResourceCPU]
	_, noMemory := why.Short[v1.ResourceMemory]
	switch {
	case noMemory && d.Memory > 0:
		why.Of = v1.ResourceMemory
	case noCPU && d.CPUs > 0:
		why.Of = v1.ResourceCPU
	}
	d.Aligned, d.Rejected, d.Misaligned = why.Of != "" && a.deps.Rules.Aligns(), &why, a.deps.Rules.Misaligned(&why)
	a.deps.Counts.Decided(d)
}

// wants is how many containers of a pod ask for something of their own.
func (a *assignments) wants(p *v1.Pod) (d Decision) {
	for c := range podspec.Lasting(&p.Spec) {
		if a.deps.Rules.Static() && cpus.Exclusive(p, c, false) > 0 {
			d.CPUs++
		}
		if a.deps.Memory != nil && len(memory.Needs(p, c)) > 0 {
			d.Memory++
		}
	}
	return d
}

func (a *assignments) beginCounts() {
	if a.deps.Counts != nil {
		a.deps.Counts.Alignments(a.deps.Rules.Alignments())
	}
}

func (a *assignments) countShared() {
	if a.deps.Counts != nil && a.deps.Rules.Static() {
		own := a.deps.Rules.OwnPerNode(a.own)
		shared := a.deps.Rules.Allocatable().Size()
		for _, n := range own { // order-free: a sum
			shared -= n
		}
		a.deps.Counts.Shared(shared, own)
	}
}
