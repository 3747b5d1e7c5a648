package csi

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/kernel"
)

// showInUse is this actor's own timer for telling nodestatus which volumes may be in use.
type showInUse struct{}

func (showInUse) isCSIMessage() {}

// showInUse sends nodestatus the volumes that may be in use, once they are known and have changed. It looks at the
// touched volumes, and advances those whose in-use flag has changed.
func (a *actor) showInUse(ctx *kernel.Context[Message]) {
	first := a.inUse == nil
	if first {
		// What was lost is looked for in the status of the Node before that is written.
		if a.touched = nil; !a.known || a.of == nil || len(a.lost) > 0 {
			return
		}
		a.inUse, a.touched = map[v1.UniqueVolumeName]bool{}, slices.Clone(a.volumes.all())
	}
	for first || len(a.touched) > 0 {
		changed, differs := a.compareInUse(first)
		switch n := len(a.inUse); {
		case !differs && !first || a.inUseLater:
		case n > few:
			a.inUseLater = true
			ctx.After(time.Duration(n)*costOfOne, showInUse{})
		default:
			a.tellInUse()
		}
		first = false
		for _, v := range changed {
			a.advance(ctx, v)
		}
	}
}

// compareInUse compares the touched volumes with volumesInUse as it was last sent to nodestatus. differs: something has
// changed. changed are the existing volumes whose in-use flag has changed. A volume that is used again right after its
// release is reported only once the Node no longer lists it: until then, the listed one may be that from before the
// release, which does not keep the volume from being detached.
func (a *actor) compareInUse(first bool) (changed []*volume, differs bool) {
	all := a.touched
	a.touched = nil
	slices.SortFunc(all, inKeyOrder)
	for _, touched := range slices.Compact(all) {
		v, told := a.volumes.get(touched.Key), a.inUse[touched.name]
		is := v != nil && v.InUse() && a.object(v.Driver).Attach &&
			(first || told || a.node != nil && !a.reported[v.name])
		if is == told {
			continue
		}
		if differs = true; is {
			a.inUse[v.name] = true
		} else {
			delete(a.inUse, touched.name)
		}
		if v != nil {
			changed = append(changed, v)
		}
	}
	return changed, differs
}

// tellInUse tells nodestatus all that may be in use: an empty list, and not nil, if nothing is.
func (a *actor) tellInUse() {
	out := make([]v1.UniqueVolumeName, 0, len(a.inUse))
	for name := range a.inUse { // order-free: sorted
		out = append(out, name)
	}
	slices.Sort(out)
	a.deps.InUse(out)
}
