package podset

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Source is the desired pods of one source.
type Source struct {
	Origin podspec.Origin
	Pods   []*v1.Pod
}

// Want is the desired pod of a source.
type Want struct {
	Pod    *v1.Pod
	Origin podspec.Origin
}

// Merge is the union of the sources, in their order. Of two static pods of one name the first
// counts. A pod of the apiserver never replaces a static pod. It is kept beside it, and begins when
// the static pod has gone.
func Merge(sources []Source) []Want {
	n := 0
	for _, s := range sources {
		n += len(s.Pods)
	}
	out := make([]Want, 0, n)
	have := map[name]bool{}
	for _, s := range sources {
		for _, p := range s.Pods {
			if s.Origin != podspec.API {
				if have[nameOf(p)] {
					continue
				}
				have[nameOf(p)] = true
			}
			out = append(out, Want{p, s.Origin})
		}
	}
	return out
}

// StartOrder puts pods that run before the others, in the order of their first sandboxes, because they already hold
// resources. The others begin after them: critical pods and those of a higher priority first, so that after a reboot
// the network of the node is there before the pods that need it; of one priority those that were here before, the
// oldest first, and then the new ones in the order of their sources.
func StartOrder(wanted []Want, runtime map[types.UID]observed.RuntimePod) []Want {
	type place struct {
		Want
		runs     bool
		priority int32
		since    time.Time // zero: never
	}
	places := make([]place, len(wanted))
	for i, w := range wanted {
		rp := runtime[w.Pod.UID]
		places[i] = place{Want: w, runs: Runs(rp), since: firstSandbox(rp)}
		if !places[i].runs {
			places[i].priority = startPriority(w.Pod)
		}
	}
	slices.SortStableFunc(places, func(x, y place) int {
		switch {
		case x.runs != y.runs:
			return first(x.runs)
		case x.priority != y.priority:
			return cmp.Compare(y.priority, x.priority)
		case x.since.IsZero() != y.since.IsZero():
			return first(!x.since.IsZero())
		default:
			return x.since.Compare(y.since)
		}
	})
	out := make([]Want, len(places))
	for i := range places {
		out[i] = places[i].Want
	}
	return out
}

// first is the order of two of which only one comes first.
func first(it bool) int {
	if it {
		return -1
	}
	return 1
}

// firstSandbox is when a pod's first sandbox was made.
func firstSandbox(rp observed.RuntimePod) (at time.Time) {
	for i := range rp.Sandboxes {
		if t := rp.Sandboxes[i].CreatedAt; at.IsZero() || t.Before(at) {
			at = t
		}
	}
	return at
}

// startPriority is the priority of a pod. A static pod without one counts as system-node-critical.
func startPriority(p *v1.Pod) int32 {
	if podspec.Static(p) && p.Spec.Priority == nil {
		return podspec.SystemNodeCritical
	}
	return podspec.Priority(p)
}
