package csi

import (
	"context"
	"maps"
	"slices"
	"time"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/expand"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// sized is the size that the apiserver says a volume has to be expanded to; 0 for none.
type sized struct {
	id   kernel.EffectID
	key  decide.Key
	size int64
	err  error
}

// look is this actor's own timer for looking at the sizes of volumes.
type look struct{}

func (sized) isCSIMessage() {}
func (look) isCSIMessage()  {}

// look asks for the claims of published volumes whether they have to be expanded: a node may not watch claims. It asks
// once for a volume, however many pods have it, and not while it has no answer.
func (a *actor) look(ctx *kernel.Context[Message]) {
	api := a.deps.API
	for _, uid := range a.users() {
		u := a.pods[uid]
		for _, name := range slices.Sorted(maps.Keys(u.uses)) {
			s := u.uses[name].spec
			v := a.volumes.get(s.Key)
			if v == nil || v.sizing.Busy() || s.Claim == "" || s.ReadOnly || v.paths[s.Target] == "" {
				continue
			}
			k, has, claim, pv := s.Key, v.Has(), claimKey(s), port.APIKey{Kind: port.PersistentVolumeKind, Name: s.Name}
			e := kernel.Effect[Message]{
				Kind: "GetClaim", Object: claim.String(), For: string(uid), Lane: "size/" + claim.String(),
				Deadline: apiDeadline,
			}
			v.sizing.Begin(portcall.Do(ctx, e, func(c context.Context, done func(int64, error)) {
				expand.Wanted(c, api, claim, pv, has, done)
			}, func(id kernel.EffectID, size int64, err error) Message { return sized{id, k, size, err} }))
		}
	}
}

func claimKey(s *decide.Spec) port.APIKey {
	return port.APIKey{Kind: port.PersistentVolumeClaimKind, Namespace: s.Namespace, Name: s.Claim}
}

func (a *actor) sized(ctx *kernel.Context[Message], m sized) {
	v := a.volumes.get(m.key)
	if v == nil || !v.sizing.Take(m.id) {
		return
	}
	if m.err != nil || m.size == 0 {
		return // it is looked at again
	}
	v.Expand(m.size)
	a.advance(ctx, v)
}

// expand makes the call of ExpandVolume, and says in the claim how far it is.
func (a *actor) expand(v *volume, of port.CSIDriver, now time.Time) func(context.Context, func(stepped, error)) {
	how, s := v.Expanding()
	drivers := a.deps.Drivers
	e := &expand.Expansion{
		API: a.deps.API, Claim: claimKey(s), Volume: port.APIKey{Kind: port.PersistentVolumeKind, Name: s.Name},
		Size: how.Size, Has: v.Has(), Now: now,
		Call: func(c context.Context, size int64, done func(error)) {
			how.Size = size
			drivers.ExpandVolume(c, of, how, done)
		},
	}
	return func(c context.Context, done func(stepped, error)) {
		e.Run(c, func(size int64, err error) { done(stepped{size: size}, err) })
	}
}

// expanded tells the pods of a volume that it was expanded, or why not. A driver that never expands on nodes counts as
// one that has, and nothing is said of it. One that refuses this size is asked again once the controller of storage has
// taken the mark from the claim that says so (NodeResizeInfeasible): it does that when it has tried again (KEP-1790).
func (a *actor) expanded(ctx *kernel.Context[Message], v *volume, size int64, err error) decide.Outcome {
	if err == nil || size > 0 {
		v.Asked(size)
	} // else there was no answer in time: which size it was asked for is not known, and it still has to grow
	switch {
	case err == nil && size == 0:
		return decide.Worked // the claim wants nothing any more
	case port.KindOf(err) == port.Unsupported:
		return decide.Worked // nobody waits for it
	}
	var claim port.Event // one is enough for it
	for _, w := range a.usesOf(v) {
		e := expand.Event(w.pod, w.spec.Name, w.name, err, ctx.Now())
		a.deps.Events.Record(e)
		claim = expand.ToClaim(e, claimKey(w.spec), w.spec.ClaimUID)
	}
	if err == nil && claim.Of != nil {
		a.deps.Events.Record(claim)
	}
	switch {
	case err == nil:
		return decide.Worked
	case expand.Infeasible(err):
		return decide.Refused
	default:
		return decide.Unsure
	}
}
