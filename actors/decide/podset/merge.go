package podset

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Source is all that one source wants.
type Source struct {
	Origin podspec.Origin
	Pods   []*v1.Pod
}

// Want is a pod that a source wants.
type Want struct {
	Pod    *v1.Pod
	Origin podspec.Origin
}

// Merge is the union of the sources, in their order. Of two static pods of one name it has the first. A
// pod of the apiserver never takes the place of a static pod, and is kept beside it: it begins when the
// static pod has gone.
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

// OldestFirst puts pods that the runtime has already before the others, in the order in which their first
// sandboxes were made: what they hold of the node is theirs. The others keep their order.
func OldestFirst(wanted []Want, runtime map[types.UID]observed.RuntimePod) []Want {
	if len(runtime) == 0 {
		return wanted
	}
	since := func(w Want) time.Time {
		var at time.Time
		rp := runtime[w.Pod.UID]
		for i := range rp.Sandboxes {
			if t := rp.Sandboxes[i].CreatedAt; at.IsZero() || t.Before(at) {
				at = t
			}
		}
		return at
	}
	out := slices.Clone(wanted)
	slices.SortStableFunc(out, func(x, y Want) int {
		at, other := since(x), since(y)
		switch {
		case at.IsZero() && other.IsZero():
			return 0
		case at.IsZero():
			return 1
		case other.IsZero():
			return -1
		default:
			return at.Compare(other)
		}
	})
	return out
}
