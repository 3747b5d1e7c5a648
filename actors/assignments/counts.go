package assignments

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/assign"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/memory"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Counts is told what was decided, for metrics. It must not block.
type Counts interface {
	// Alignments is told at each start of the actor which alignments can be in decisions, and which of them as
	// Decision.Misaligned.
	Alignments(counted, refused []assign.Alignment)
	// Decided is told of each pod that has got what it asks for, or was refused.
	Decided(Decision)
	// Shared is told how many CPUs all containers without their own share, and how many others have alone by NUMA node,
	// at the start and after each change. It is not told where no container has CPUs of its own.
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
	Alignments map[assign.Alignment]int
	// Misaligned is what the pod was refused for, the zero value if not for an alignment.
	Misaligned assign.Alignment
	// Rejected is nil if the pod has got all.
	Rejected *admit.Rejection
}

func (a *assignments) count(q *request, why *admit.Rejection) {
	if a.deps.Counts == nil || q.counted {
		return
	}
	d := Decision{Aligned: a.deps.Rules.Aligns(), Rejected: why, Misaligned: a.deps.Rules.Misaligned(why)}
	if why == nil {
		d.Alignments = q.aligned
	}
	for c := range podspec.Lasting(&q.Pod.Spec) {
		if a.deps.Rules.Static() && cpus.Exclusive(q.Pod, c, false) > 0 {
			d.CPUs++
		}
		if a.deps.Memory != nil && len(memory.Needs(q.Pod, c)) > 0 {
			d.Memory++
		}
	}
	a.deps.Counts.Decided(d)
}

func (a *assignments) beginCounts() {
	if a.deps.Counts != nil {
		a.deps.Counts.Alignments(a.deps.Rules.Alignments())
	}
}

func (a *assignments) countShared() {
	if a.deps.Counts != nil && a.deps.Rules.Static() {
		a.deps.Counts.Shared(a.deps.Rules.Shared(a.own).Size(), a.deps.Rules.OwnPerNode(a.own))
	}
}
