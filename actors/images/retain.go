package images

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/kernel"
)

// retain forgets pods that are gone.
func (a *images) retain(ctx *kernel.Context[Message], m Retain) {
	gone := map[types.UID]bool{}
	for uid := range a.held { // order-free: a set
		gone[uid] = !m.Pods[uid]
	}
	for _, i := range a.of { // order-free: a set
		for _, w := range i.Waiting {
			gone[w.Pod.UID] = !w.Lowest && !m.Pods[w.Pod.UID]
		}
	}
	forgotten := false
	for _, uid := range slices.Sorted(maps.Keys(gone)) {
		if gone[uid] {
			a.forget(ctx, uid)
			forgotten = true
		}
	}
	if forgotten {
		a.deps.Restarted()
	}
}
