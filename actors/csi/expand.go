package csi

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
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
			if v == nil || v.sizing != 0 || s.Claim == "" || s.ReadOnly || v.paths[s.Target] == "" {
				continue
			}
			k, claim, pv := s.Key, claimKey(s), port.APIKey{Kind: port.PersistentVolumeKind, Name: s.Name}
			e := kernel.Effect[Message]{
				Kind: "GetClaim", Object: claim.String(), Lane: "size/" + claim.String(), Deadline: apiDeadline,
			}
			v.sizing = portcall.Do(ctx, e, func(c context.Context, done func(int64, error)) {
				outgrown(c, api, claim, pv, done)
			}, func(id kernel.EffectID, size int64, err error) Message { return sized{id, k, size, err} })
		}
	}
}

func claimKey(s *decide.Spec) port.APIKey {
	return port.APIKey{Kind: port.PersistentVolumeClaimKind, Namespace: s.Namespace, Name: s.Claim}
}

// outgrown reads what a volume has to be expanded to.
func outgrown(c context.Context, api API, claim, pv port.APIKey, done func(int64, error)) {
	api.Get(c, claim, func(o port.APIObject, err error) {
		if err != nil {
			done(0, err)
			return
		}
		of := o.(*v1.PersistentVolumeClaim)
		if !decide.Resizes(of) {
			done(0, nil)
			return
		}
		api.Get(c, pv, func(o port.APIObject, err error) {
			if err != nil {
				done(0, err)
				return
			}
			done(decide.Outgrown(of, o.(*v1.PersistentVolume)), nil)
		})
	})
}

func (a *actor) sized(ctx *kernel.Context[Message], m sized) {
	v := a.volumes.get(m.key)
	if v == nil || v.sizing != m.id {
		return
	}
	v.sizing = 0
	if m.err != nil || m.size == 0 {
		return // it is looked at again
	}
	v.Expand(m.size)
	a.advance(ctx, v)
}

// expand makes the call of ExpandVolume, and says in the claim how far it is.
func (a *actor) expand(v *volume, of port.CSIDriver) func(context.Context, func(stepped, error)) {
	api, drivers := a.deps.API, a.deps.Drivers
	how, s := v.Expanding()
	key := claimKey(s)
	return func(c context.Context, done func(stepped, error)) {
		failed := func(err error) { done(stepped{}, err) }
		mark := func(from *v1.PersistentVolumeClaim, to *v1.PersistentVolumeClaim, then func(error)) {
			api.Patch(c, port.APIPatch{Key: key, From: from, To: to, Status: true},
				func(_ port.APIObject, err error) { then(unmarked(key, err)) })
		}
		api.Get(c, key, func(o port.APIObject, err error) {
			if err != nil {
				failed(err)
				return
			}
			have := o.(*v1.PersistentVolumeClaim)
			busy := decide.Marked(have, v1.PersistentVolumeClaimNodeResizeInProgress)
			mark(have, busy, func(err error) {
				if err != nil {
					failed(err)
					return
				}
				drivers.ExpandVolume(c, of, how, func(err error) {
					switch port.KindOf(err) {
					case port.Other:
						if err == nil {
							mark(busy, decide.Expanded(busy, how.Size), failed)
							return
						}
						failed(err)
					case port.Invalid:
						mark(busy, decide.Marked(busy, v1.PersistentVolumeClaimNodeResizeInfeasible), func(unmarked error) {
							if unmarked != nil {
								err = unmarked // it is asked again, until the claim says so
							}
							failed(err)
						})
					default:
						failed(err)
					}
				})
			})
		})
	}
}

// unmarked is the error of an expansion whose progress can't be written into its claim, nil for none. Unlike what a
// driver says, it is never final.
func unmarked(claim port.APIKey, err error) error {
	if err == nil {
		return nil
	}
	return &port.Error{Kind: port.Unavailable, Verb: "PatchClaim", Object: claim.String(), Detail: err.Error()}
}

// expanded tells the pods of a volume that it was expanded, or why not. A driver that never expands on nodes counts as
// one that has. One that refuses this size is asked again once the controller of storage has taken the mark from the
// claim that says so (NodeResizeInfeasible): it does that when it has tried again (KEP-1790).
func (a *actor) expanded(ctx *kernel.Context[Message], v *volume, err error) decide.Outcome {
	e := port.Event{Reason: "FileSystemResizeSuccessful", At: ctx.Now()}
	if err != nil {
		e.Warning, e.Reason = true, "VolumeResizeFailed"
	}
	for _, uid := range a.users() {
		for name, w := range a.pods[uid].uses { // order-free: one event each
			if w.spec.Key != v.Key {
				continue
			}
			e.Pod = w.pod
			e.Message = fmt.Sprintf("MountVolume.NodeExpandVolume succeeded for volume %q", w.spec.Name)
			if err != nil {
				e.Message = fmt.Sprintf("NodeExpandVolume.NodeExpandVolume failed for volume %q (%s): %s", w.spec.Name, name, err)
			}
			a.deps.Events.Record(e)
		}
	}
	switch {
	case err == nil || port.KindOf(err) == port.Unsupported:
		return decide.Worked
	case port.KindOf(err) == port.Invalid:
		return decide.Refused
	default:
		return decide.Unsure
	}
}
