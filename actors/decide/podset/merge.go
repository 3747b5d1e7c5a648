package podset

import (
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

// OldestFirst puts pods that the runtime already has before the others, in the order of their first
// sandboxes, because they already hold resources. The others keep their order.
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
