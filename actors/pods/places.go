package pods

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/placement"
	"github.com/troupe-dev/troupe/actors/decide/podset"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// Places are the requests to assignments (assignments.Message).
type Places struct {
	Place   func(p *v1.Pod)
	Release func(uid types.UID)
	Living  func(pods map[types.UID]bool)
}

// places is what this actor knows of the CPUs of all pods.
type places struct {
	// shared are the CPUs of containers without their own, as the CRI has them. Empty: not known yet.
	shared string
	// told: assignments knows which pods there are.
	told bool
}

// place is what a pod's containers have to themselves alone.
//
//	(none) ──placed──► asked ──Placed──► answered ──ended──► Release ──► (none)
//	                                      └ rejected: the pod is not tried again before others have released CPUs
type place struct {
	asked, answered bool
	own             map[string]placement.Container
	rejected        *admit.Rejection
	// now is what the pod's actor was told last.
	now *placement.Pod
}

// placed reports whether it is known what the containers of a pod have to themselves. If not, it asks.
func (a *pods) placed(r *record) bool {
	if a.deps.Places == nil || r.place.answered || r.abandoned() {
		return true
	}
	if !r.place.asked {
		r.place.asked = true
		a.deps.Places.Place(r.Pod)
	}
	return false
}

// answered notes what containers have, and tells the actors of pods.
func (a *pods) answered(ctx *kernel.Context[Message], m Placed) {
	for _, p := range m.Pods {
		r := a.of[p.UID]
		if r == nil || !r.place.asked {
			// It has gone meanwhile.
			a.deps.Places.Release(p.UID)
			continue
		}
		r.place.answered, r.place.rejected, r.place.own = true, p.Rejected, ownOf(p.Own)
	}
	a.places.shared = m.Shared.String()
	for _, r := range a.ranked {
		if r.State == podset.Running && r.place.answered && a.placement(r) != r.place.now {
			a.assign(r.Pod.UID)
		}
	}
	a.reconcile(ctx)
}

func ownOf(cpus map[string]cpuset.CPUSet) map[string]placement.Container {
	out := make(map[string]placement.Container, len(cpus))
	for name, set := range cpus { // order-free: a map again
		out[name] = placement.Container{CPUs: set.String()}
	}
	return out
}

// placement is where the containers of a pod run: the same value for as long as that is so. It is nil while that is not
// known, and on a node where they run anywhere.
func (a *pods) placement(r *record) *placement.Pod {
	switch {
	case !r.place.answered || r.place.rejected != nil:
		return nil
	case r.place.now != nil && r.place.now.Shared == a.places.shared:
		return r.place.now
	}
	return &placement.Pod{Own: r.place.own, Shared: a.places.shared}
}

// releaseEnded gives back what pods have that have ended, or were not admitted.
func (a *pods) releaseEnded() {
	if a.deps.Places == nil {
		return
	}
	for _, r := range a.ranked {
		if r.place.asked && r.State != podset.Waiting && r.State != podset.Running {
			a.release(r)
		}
	}
}

// release gives back what a pod has. Pods that were rejected for too few CPUs may be tried again then.
func (a *pods) release(r *record) {
	if !r.place.asked {
		return
	}
	had := r.place
	r.place = place{rejected: had.rejected}
	if had.answered && len(had.own) == 0 {
		return
	}
	a.deps.Places.Release(r.Pod.UID)
	for _, o := range a.ranked {
		if !o.place.asked {
			o.place.rejected = nil
		}
	}
}

// placeAgain repeats a request without an answer.
func (a *pods) placeAgain(r *record) {
	if r.place.asked && !r.place.answered {
		a.deps.Places.Place(r.Pod)
	}
}

// tellLiving tells assignments once which pods there are, when all sources have reported.
func (a *pods) tellLiving() {
	if a.deps.Places == nil || a.places.told || !a.ready() || !a.allSeen() {
		return
	}
	a.places.told = true
	living := map[types.UID]bool{}
	for uid, r := range a.of { // order-free: a set
		living[uid] = r.State == podset.Waiting || r.State == podset.Running
	}
	a.deps.Places.Living(living)
}
