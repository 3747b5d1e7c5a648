package controlplane

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Workload is a set of pods that are alike: as many as Replicas, made again when
// they go, and replaced a few at a time when the template changes. It is what a
// Deployment with its ReplicaSets does, in one.
type Workload struct {
	Namespace, Name string
	Replicas        int
	Template        v1.PodTemplateSpec
	// MaxSurge is how many pods more than Replicas there may be during an update,
	// rounded up, MaxUnavailable how many fewer may be ready, rounded down. Both
	// are 25% if nil (API RollingUpdateDeployment).
	MaxSurge, MaxUnavailable *intstr.IntOrString
	// Stateful gives its pods ordinals and claims; MaxSurge and MaxUnavailable do not count then.
	Stateful *Stateful
}

var quarter = intstr.FromString("25%")

func (w *Workload) limits() (surge, missing int) {
	part := func(v *intstr.IntOrString, up bool) int {
		if v == nil {
			v = &quarter
		}
		n, err := intstr.GetScaledValueFromIntOrPercent(v, w.Replicas, up)
		if err != nil {
			panic(err) // checked when it was set
		}
		return n
	}
	surge, missing = part(w.MaxSurge, true), part(w.MaxUnavailable, false)
	if surge == 0 && missing == 0 {
		missing = 1 // as the Deployment controller does: it has to go on
	}
	return surge, missing
}

// step is what has to be done about a workload's pods now: how many to make of
// the newest template, and which to delete.
//
//	new ─made, within Replicas + MaxSurge─► ready ─► one of the old may go
//	old ─not ready: at once─ ready: while Replicas - MaxUnavailable are ready─► deleted
func (w *Workload) step(pods []*v1.Pod, isNew func(*v1.Pod) bool) (create int, remove []*v1.Pod) {
	surge, missing := w.limits()
	var fresh, old []*v1.Pod
	ready := 0
	for _, p := range pods {
		switch {
		case p.DeletionTimestamp != nil || finished(p):
			continue // gone, or as good as gone
		case isNew(p):
			fresh = append(fresh, p)
		default:
			old = append(old, p)
		}
		if podReady(p) {
			ready++
		}
	}
	if extra := len(fresh) - w.Replicas; extra > 0 {
		slices.SortStableFunc(fresh, byWorth)
		for _, p := range fresh[:extra] {
			if podReady(p) {
				ready--
			}
			remove = append(remove, p)
		}
		fresh = fresh[extra:]
	}
	most := w.Replicas
	if len(old) > 0 {
		most += surge
	}
	create = max(min(w.Replicas-len(fresh), most-len(fresh)-len(old)), 0)
	slices.SortStableFunc(old, byWorth)
	for _, p := range old {
		if podReady(p) {
			if ready <= w.Replicas-missing {
				break
			}
			ready--
		}
		remove = append(remove, p)
	}
	return create, remove
}

// byWorth puts those first that are missed least: not bound, not ready, young.
func byWorth(a, b *v1.Pod) int {
	rank := func(p *v1.Pod) int {
		switch {
		case p.Spec.NodeName == "":
			return 0
		case !podReady(p):
			return 1
		default:
			return 2
		}
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name))
}

func finished(p *v1.Pod) bool {
	return podspec.Finished(p)
}

func podReady(p *v1.Pod) bool {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == v1.PodReady {
			return p.Status.Conditions[i].Status == v1.ConditionTrue
		}
	}
	return false
}
