package csi

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// findLost looks for staged volumes whose notes can't be read among those that pods use, and those that the status of
// the Node has: in use, which an agent writes before a volume is staged, and attached. The directory of a staged volume
// has the hash of its handle. Those that the first Node that is seen does not have are named.
func (a *actor) findLost(ctx *kernel.Context[Message]) {
	if !a.known || len(a.lost) == 0 {
		return
	}
	var names []v1.UniqueVolumeName
	for _, uid := range a.users() {
		for _, w := range a.pods[uid].uses { // order-free: each volume has one name
			if !w.spec.Inline && !w.spec.Block {
				names = append(names, w.spec.UniqueName())
			}
		}
	}
	if a.node != nil {
		names = append(names, a.node.Status.VolumesInUse...)
		for _, v := range a.node.Status.VolumesAttached {
			names = append(names, v.Name)
		}
	}
	a.lost = slices.DeleteFunc(a.lost, func(l decide.Lost) bool {
		k, is := l.Among(names)
		if !is {
			return false
		}
		ctx.Log().Warn().Str("driver", k.Driver).Str("volume", k.Handle).Str("error", l.Why).
			Msg("cannot read vol_data.json of a staged CSI volume; identified it by the hash of its volume handle")
		v := a.volume(k, false)
		if v.Staging == decide.None {
			v.FoundStaged(decide.Found{Key: k, Held: l.Held})
		}
		return true
	})
	if a.node == nil {
		return
	}
	for _, l := range a.lost {
		unreadable(ctx, l.Why)
	}
	a.lost = nil
}

// unreadable names what nothing can be done about here.
func unreadable(ctx *kernel.Context[Message], text string) {
	ctx.Log().Error().Str("error", text).
		Msg("cannot read vol_data.json of a CSI volume, or its directory: unmount it by hand, and remove the directory")
}

// stays says to people why a volume that no pod uses stays.
func (a *actor) stays(ctx *kernel.Context[Message], k decide.Key, text string) {
	ctx.Log().Warn().Str("driver", k.Driver).Str("volume", k.Handle).Msg(text)
	a.deps.Events.Record(port.Event{
		Node: a.deps.Node, Warning: true, Reason: "FailedUnMount", Message: text, At: ctx.Now(),
	})
}
