package volumes

import (
	"maps"
	"slices"

	"github.com/troupe-dev/troupe/actors/kernel"
)

// freed tries again at once what other pods had otherwise: a disk with another SELinux label. One of them has just
// gone.
func (a *volumes) freed(ctx *kernel.Context[Message]) {
	for _, uid := range slices.Sorted(maps.Keys(a.pods)) {
		p, was := a.pods[uid], false
		failures := p.failures.List()
		for i := range failures {
			if f := &failures[i].Value; f.taken {
				f.again, was = true, true
			}
		}
		if was {
			a.advance(ctx, uid)
		}
	}
}
