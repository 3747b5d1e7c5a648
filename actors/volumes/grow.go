package volumes

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/expand"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// lookEvery is the time between looks at the sizes of local volumes in use, as of those of CSI drivers. A node may not
// watch claims.
const lookEvery = time.Minute

// growable reports whether a volume is one whose size is looked at while a pod has it.
func (p *user) growable(v *volumeplan.Volume) bool {
	return !p.Down() && !v.ReadOnly && v.Persistent != nil && v.Persistent.Spec.Local != nil
}

// lookLater begins the looks, if a pod has a local volume.
func (a *volumes) lookLater(ctx *kernel.Context[Message], p *user) {
	if a.looking || a.deps.API == nil {
		return
	}
	for i := range p.Volumes {
		if p.growable(&p.Volumes[i]) {
			a.looking = true
			ctx.After(lookEvery, look{})
			return
		}
	}
}

// look asks for the claims of local volumes in use whether they are to be grown, and grows them: one at a time, and
// once for all pods that have it.
func (a *volumes) look(ctx *kernel.Context[Message]) {
	a.looking = false
	asked := map[string]bool{}
	for _, uid := range slices.Sorted(maps.Keys(a.pods)) {
		p := a.pods[uid]
		a.lookLater(ctx, p)
		for i := range p.Volumes {
			v := &p.Volumes[i]
			if !p.growable(v) || !v.State.There() || asked[v.Persistent.Name] {
				continue
			}
			name := v.Persistent.Name
			if asked[name] = true; a.growing[name] != 0 {
				continue
			}
			e := kernel.Effect[Message]{
				Kind: grow.String(), Object: name, For: string(uid), Lane: grow.String() + "/" + name, Tag: tag{uid, grow},
				Deadline: a.deps.Deadline,
			}
			a.growing[name] = portcall.Do(ctx, e, a.expansion(ctx.Now(), uid, p, v).Run,
				func(id kernel.EffectID, size int64, err error) Message { return grown{id, uid, name, size, err} })
		}
	}
}

// expansion grows a volume as its claim says. It holds nothing of the actor.
func (a *volumes) expansion(now time.Time, uid types.UID, p *user, v *volumeplan.Volume) *expand.Expansion {
	host, r := a.deps.Host, port.GrowVolume{Pod: uid, Persistent: v.Persistent, Patience: a.deps.Deadline}
	return &expand.Expansion{
		API: a.deps.API, Now: now, Claim: p.claim(v),
		Volume: port.APIKey{Kind: port.PersistentVolumeKind, Name: v.Persistent.Name},
		Call:   func(c context.Context, _ int64, done func(error)) { host.GrowVolume(c, r, done) },
	}
}

func (p *user) claim(v *volumeplan.Volume) port.APIKey {
	return port.APIKey{Kind: port.PersistentVolumeClaimKind, Namespace: p.Object.Namespace,
		Name: podobjects.ClaimName(p.Object, v.Volume)}
}

// growth is what is done after a volume was mounted for a pod that begins, before its containers start; nil for
// nothing. Where a pod already runs with a volume, a look does it.
func (a *volumes) growth(now time.Time, uid types.UID, p *user, v *volumeplan.Volume) *expand.Expansion {
	if !v.Outgrown || !p.growable(v) || p.Later || v.State.There() || a.deps.API == nil {
		return nil
	}
	return a.expansion(now, uid, p, v)
}

// sized says in events that a volume was grown as it was brought to a pod, to the size in bytes, or why not.
func (a *volumes) sized(ctx *kernel.Context[Message], p *user, v *volumeplan.Volume, size int64) {
	switch {
	case p.Object == nil || v.Persistent == nil:
	case size > 0:
		a.tellBoth(p, v, expand.Event(p.Object, v.Persistent.Name, v.Name, nil, ctx.Now()))
	case v.Outgrown && v.ReadOnly && (v.CSI == nil || v.CSI.ReadOnly) && a.deps.API != nil && !p.Later:
		a.tellBoth(p, v, expand.ReadOnly(p.Object, v.Persistent.Name, ctx.Now()))
	}
}

// tellBoth records an event of a pod, and the same for the claim of the volume.
func (a *volumes) tellBoth(p *user, v *volumeplan.Volume, e port.Event) {
	a.deps.Events.Record(e)
	a.deps.Events.Record(p.toClaim(v, e))
}

func (p *user) toClaim(v *volumeplan.Volume, e port.Event) port.Event {
	return expand.ToClaim(e, p.claim(v), v.Persistent.Spec.ClaimRef.UID)
}

// ungrown forgets growths that were given up: those among what is a key.
func (a *volumes) ungrown(givenUp map[volumeplan.Call]bool) {
	maps.DeleteFunc(a.growing, func(_ string, of kernel.EffectID) bool {
		_, is := givenUp[volumeplan.Call(of)]
		return is
	})
}

// grown tells the pods that have a volume how its growth went. One that failed is tried again at the next look.
func (a *volumes) grown(ctx *kernel.Context[Message], m grown) {
	if a.growing[m.pv] == m.id {
		delete(a.growing, m.pv)
		a.tellGrown(ctx, m)
	}
	if p := a.pods[m.uid]; p != nil && p.Down() {
		p.Ended(nil, volumeplan.Call(m.id))
		a.advance(ctx, m.uid) // it has waited for this
	}
}

func (a *volumes) tellGrown(ctx *kernel.Context[Message], m grown) {
	if m.size == 0 && (m.err == nil || port.KindOf(m.err) == port.NotFound) {
		return // it has its size, or there is no claim that says otherwise
	}
	var claim port.Event // one is enough for it
	for _, uid := range slices.Sorted(maps.Keys(a.pods)) {
		p := a.pods[uid]
		for i := range p.Volumes {
			if v := &p.Volumes[i]; p.growable(v) && v.Persistent.Name == m.pv && v.State.There() {
				e := expand.Event(p.Object, m.pv, v.Name, m.err, ctx.Now())
				a.deps.Events.Record(e)
				claim = p.toClaim(v, e)
			}
		}
	}
	if m.err == nil && claim.Of != nil {
		a.deps.Events.Record(claim)
	}
}
