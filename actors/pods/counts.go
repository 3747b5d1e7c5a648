package pods

import (
	"cmp"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podstatus"
)

// Counts is told what becomes of pods, for metrics. It must not block.
type Counts interface {
	// Ended is told of each container that has ended.
	Ended(podstatus.Ending)
}

// countEnded counts the containers that have ended since before, which is nil if nothing was said of the pod here.
func (a *pods) countEnded(r *record, before, now *v1.PodStatus) {
	if a.deps.Counts == nil {
		return
	}
	for _, e := range podstatus.Ended(cmp.Or(before, &r.Pod.Status), now) {
		a.deps.Counts.Ended(e)
	}
}
