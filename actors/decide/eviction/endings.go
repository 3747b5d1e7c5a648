package eviction

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// endWait is how long the end of an evicted pod may take beyond its grace period.
const endWait = 30 * time.Second

// Ending is an evicted pod that has not ended yet.
//
//	begun ──► it has ended, or is gone
//	  └──endWait after its grace──► late: nothing waits for it ──► it has ended, or is gone
type Ending struct {
	Victim
	// For is the resource that its end frees.
	For v1.ResourceName
	// Until is when it is late.
	Until time.Time
	Late  bool
}

// Endings are the pods that were evicted and have not ended. They are not chosen again. A value: methods return
// the next one. The zero value has none.
type Endings struct{ list []Ending }

// Begin adds an eviction.
func (e Endings) Begin(v Victim, of v1.ResourceName, now time.Time) Endings {
	next := e.without(func(o *Ending) bool { return o.Pod.UID == v.Pod.UID })
	next.list = append(next.list, Ending{Victim: v, For: of, Until: now.Add(v.Stop.Grace + endWait)})
	return next
}

// Ended drops those whose end has freed what it can, by a list of all pods: they are gone or have ended, and if their
// volumes hold some of it, these are removed too. holding are the pods of which something runs or is mounted.
func (e Endings) Ended(all []*v1.Pod, holding map[types.UID]bool) Endings {
	living := make(map[types.UID]bool, len(all))
	for _, p := range all {
		living[p.UID] = !podspec.Finished(p)
	}
	return e.without(func(o *Ending) bool {
		return !living[o.Pod.UID] && (!holding[o.Pod.UID] || !inVolumes(o))
	})
}

// inVolumes says whether volumes of an evicted pod may hold some of what its end frees.
func inVolumes(o *Ending) bool {
	switch kind(o.For) {
	case v1.ResourceEphemeralStorage:
		return true
	case v1.ResourceMemory:
		return slices.ContainsFunc(o.Pod.Spec.Volumes, func(v v1.Volume) bool {
			return v.EmptyDir != nil && v.EmptyDir.Medium == v1.StorageMediumMemory
		})
	default:
		return false
	}
}

// Overdue are those that are late now and were not before. Each is to be stopped once more, without a grace
// period: the pod is known to take too long, and the first request may have been lost.
func (e Endings) Overdue(now time.Time) (next Endings, late []Victim) {
	next = e.without(func(*Ending) bool { return false })
	for i := range next.list {
		o := &next.list[i]
		most := o.Stop.Grace + endWait
		if o.Until.Sub(now) > most { // the clock was set back
			o.Until = now.Add(most)
		}
		if o.Late || now.Before(o.Until) {
			continue
		}
		o.Late = true
		v := o.Victim
		v.Stop.At, v.Stop.Grace = now, 0
		late = append(late, v)
	}
	return next, late
}

// Has says whether a pod was evicted and has not ended.
func (e Endings) Has(uid types.UID) bool {
	for i := range e.list {
		if e.list[i].Pod.UID == uid {
			return true
		}
	}
	return false
}

// Awaits says whether the end of a pod will soon free some of a resource. Until then nobody else is evicted for it.
// Bytes and inodes are one: both are on disk.
func (e Endings) Awaits(of v1.ResourceName) bool {
	for i := range e.list {
		if o := &e.list[i]; !o.Late && kind(o.For) == kind(of) {
			return true
		}
	}
	return false
}

// kind is what stands for all resources of one kind.
func kind(of v1.ResourceName) v1.ResourceName {
	if of == Inodes {
		return v1.ResourceEphemeralStorage
	}
	return of
}

func (e Endings) without(drop func(*Ending) bool) (next Endings) {
	for i := range e.list {
		if !drop(&e.list[i]) {
			next.list = append(next.list, e.list[i])
		}
	}
	return next
}

// Candidates are the pods that may be evicted for a shortage.
func (e Endings) Candidates(all []*v1.Pod) (out []*v1.Pod) {
	for _, p := range all {
		if !podspec.Finished(p) && !podspec.Critical(p) && !e.Has(p.UID) {
			out = append(out, p)
		}
	}
	return out
}

// Limited are the pods that may be evicted for their own limits.
func (e Endings) Limited(all []*v1.Pod) (out []*v1.Pod) {
	for _, p := range all {
		if Limited(p) && !e.Has(p.UID) {
			out = append(out, p)
		}
	}
	return out
}

// Rest leaves out the pods that were evicted since they were measured, and all if there is not one use for each.
func (e Endings) Rest(pods []*v1.Pod, uses []Use) (left []*v1.Pod, of []Use) {
	if len(pods) != len(uses) {
		return nil, nil
	}
	for i, p := range pods {
		if !e.Has(p.UID) {
			left, of = append(left, p), append(of, uses[i])
		}
	}
	return left, of
}
