package csi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

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
			k, has, claim, pv := s.Key, v.Has(), claimKey(s), port.APIKey{Kind: port.PersistentVolumeKind, Name: s.Name}
			e := kernel.Effect[Message]{
				Kind: "GetClaim", Object: claim.String(), Lane: "size/" + claim.String(), Deadline: apiDeadline,
			}
			v.sizing = portcall.Do(ctx, e, func(c context.Context, done func(int64, error)) {
				outgrown(c, api, claim, pv, has, done)
			}, func(id kernel.EffectID, size int64, err error) Message { return sized{id, k, size, err} })
		}
	}
}

func claimKey(s *decide.Spec) port.APIKey {
	return port.APIKey{Kind: port.PersistentVolumeClaimKind, Namespace: s.Namespace, Name: s.Claim}
}

// outgrown reads what a volume has to be expanded to. has is the size that it has on this node.
func outgrown(c context.Context, api API, claim, pv port.APIKey, has int64, done func(int64, error)) {
	api.Get(c, claim, func(o port.APIObject, err error) {
		if err != nil {
			done(0, err)
			return
		}
		of := o.(*v1.PersistentVolumeClaim)
		if size := decide.Elsewhere(of, has); size > 0 || !decide.Resizes(of) {
			done(size, nil)
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

// expand makes the call of ExpandVolume, and says in the claim how far it is. Both the claim and its volume are read
// again: the size may be another one by now, or none. A claim that says the size already, because another node has
// expanded the volume (see [decide.Elsewhere]), is left alone, unless this node can't do it.
func (a *actor) expand(v *volume, of port.CSIDriver, now time.Time) func(context.Context, func(stepped, error)) {
	how, s := v.Expanding()
	e := &expansion{
		api: a.deps.API, drivers: a.deps.Drivers, of: of, how: how, has: v.Has(), key: claimKey(s), now: now,
		pv: port.APIKey{Kind: port.PersistentVolumeKind, Name: s.Name},
	}
	return e.run
}

// expansion is one call of ExpandVolume, with what is said of it in the claim. It holds nothing of the actor.
//
//	Get claim, Get volume ──nothing to do──► done, without a call
//	  │
//	mark NodeResizeInProgress ──► call ──worked──► mark: capacity, no conditions
//	                               ├─refused────► mark: the condition, and NodeResizeInfeasible if it can't be done
//	                               └─no answer, or the driver is not there──► the claim stays as it is
type expansion struct {
	api     API
	drivers port.CSI
	of      port.CSIDriver
	how     decide.Expand
	// has is the size in bytes that the volume has on this node; 0: unknown.
	has     int64
	key, pv port.APIKey
	now     time.Time
}

func (e *expansion) run(c context.Context, done func(stepped, error)) {
	asked := int64(0)
	end := func(err error) { done(stepped{size: asked}, err) }
	e.api.Get(c, e.key, func(o port.APIObject, err error) {
		if err != nil {
			asked = e.how.Size
			end(err)
			return
		}
		claim := o.(*v1.PersistentVolumeClaim)
		if asked = decide.Elsewhere(claim, e.has); asked > 0 {
			e.how.Size = asked
			e.drivers.ExpandVolume(c, e.of, e.how, func(err error) { e.called(c, claim, err, end) })
			return
		}
		e.api.Get(c, e.pv, func(o port.APIObject, err error) {
			if err != nil {
				asked = e.how.Size
				end(err)
				return
			}
			if asked = decide.Outgrown(claim, o.(*v1.PersistentVolume)); asked == 0 {
				end(nil)
				return
			}
			e.how.Size = asked
			busy := decide.Marked(claim, v1.PersistentVolumeClaimNodeResizeInProgress)
			e.mark(c, claim, busy, func(err error) {
				if err != nil {
					end(err)
					return
				}
				e.drivers.ExpandVolume(c, e.of, e.how, func(err error) { e.called(c, busy, err, end) })
			})
		})
	})
}

// called says in the claim what the driver has answered.
func (e *expansion) called(c context.Context, busy *v1.PersistentVolumeClaim, err error, end func(error)) {
	settled := decide.Settled(busy, e.how.Size)
	switch {
	case err == nil && settled:
		end(nil)
	case err == nil:
		e.mark(c, busy, decide.Expanded(busy, e.how.Size), end)
	case !refusal(err), settled && port.KindOf(err) != port.Invalid:
		end(err)
	default:
		failed := decide.Failed(busy, e.how.Size, port.KindOf(err) == port.Invalid, err.Error(), e.now)
		e.mark(c, busy, failed, func(unmarked error) {
			if unmarked != nil {
				err = unmarked // it is asked again, until the claim says so
			} else if decide.Infeasible(failed) {
				err = infeasible{err}
			}
			end(err)
		})
	}
}

// refusal reports whether a driver has finally refused an expansion. One that could not be asked, or that never expands
// on nodes, has not.
func refusal(err error) bool {
	switch port.KindOf(err) {
	case port.Invalid, port.Other:
		return true
	default:
		return false
	}
}

// infeasible is the refusal of an expansion that is not asked for again before the controller of storage has tried.
type infeasible struct{ error }

func (e infeasible) Unwrap() error { return e.error }

func (e *expansion) mark(c context.Context, from, to *v1.PersistentVolumeClaim, then func(error)) {
	e.api.Patch(c, port.APIPatch{Key: e.key, From: from, To: to, Status: true},
		func(_ port.APIObject, err error) { then(unmarked(e.key, err)) })
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
	case err == nil:
		return decide.Worked
	case errors.As(err, new(infeasible)):
		return decide.Refused
	default:
		return decide.Unsure
	}
}
