// Package expand is the effect that expands one volume on this node: with its CSI driver, or with the file system of a
// local volume. What the claim wants is read again when it begins, and the claim says how far it is. What a claim
// wants of a node, and what is said in it, decide/csi decides.
package expand

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
)

// API is what an expansion uses of port.API.
type API interface {
	Get(ctx context.Context, k port.APIKey, done func(port.APIObject, error))
	Patch(ctx context.Context, p port.APIPatch, done func(port.APIObject, error))
}

// Expansion is one expansion of a volume. It holds nothing of an actor. Both the claim and its volume are read again:
// the size may be another one by now, or none. A claim that says the size already, because another node has expanded
// the volume (see [csi.Elsewhere]), is left alone, unless this node can't do it. So is one in which nobody says how
// its expansion goes ([csi.Quiet]), until it has worked.
//
//	Get claim, Get volume ──nothing to do──► done, without a call
//	  │
//	mark NodeResizeInProgress ──► call ──worked──► mark: capacity, no conditions
//	                               ├─refused────► mark: the condition, and NodeResizeInfeasible if it can't be done
//	                               └─no answer, or the driver is not there──► the claim stays as it is
type Expansion struct {
	API           API
	Claim, Volume port.APIKey
	// Size in bytes is what it was asked for, for who can't read the claim. Has is the size in bytes that the volume has
	// on this node; 0: unknown.
	Size, Has int64
	Now       time.Time
	// Call expands the volume to a size in bytes.
	Call func(ctx context.Context, size int64, done func(error))
}

// Run makes it. done gets the size that the volume was expanded to, or was to be; 0 if there was nothing to do.
func (e *Expansion) Run(c context.Context, done func(size int64, err error)) {
	e.API.Get(c, e.Claim, func(o port.APIObject, err error) {
		if err != nil {
			done(e.Size, err)
			return
		}
		claim := o.(*v1.PersistentVolumeClaim)
		if size := csi.Elsewhere(claim, e.Has); size > 0 {
			e.call(c, claim, size, done)
			return
		}
		e.API.Get(c, e.Volume, func(o port.APIObject, err error) {
			if err != nil {
				done(e.Size, err)
				return
			}
			size := csi.Outgrown(claim, o.(*v1.PersistentVolume))
			switch {
			case size == 0:
				done(0, nil)
				return
			case csi.Quiet(claim):
				e.call(c, claim, size, done)
				return
			}
			busy := csi.Marked(claim, v1.PersistentVolumeClaimNodeResizeInProgress)
			e.mark(c, claim, busy, func(err error) {
				if err != nil {
					done(size, err)
					return
				}
				e.call(c, busy, size, done)
			})
		})
	})
}

// call expands the volume, and says in the claim what came of it.
func (e *Expansion) call(
	c context.Context, claim *v1.PersistentVolumeClaim, size int64, done func(int64, error),
) {
	end := func(err error) { done(size, err) }
	e.Call(c, size, func(err error) {
		settled := csi.Settled(claim, size)
		switch {
		case err == nil && settled:
			end(nil)
		case err == nil:
			e.mark(c, claim, csi.Expanded(claim, size), end)
		case !refusal(err), settled && port.KindOf(err) != port.Invalid, csi.Quiet(claim) && !settled:
			end(err)
		default:
			failed := csi.Failed(claim, size, port.KindOf(err) == port.Invalid, err.Error(), e.Now)
			e.mark(c, claim, failed, func(unmarked error) {
				if unmarked != nil {
					err = unmarked // it is asked again, until the claim says so
				} else if csi.Infeasible(failed) {
					err = infeasible{err}
				}
				end(err)
			})
		}
	})
}

// Wanted reads which size a volume has to be expanded to; 0 for none. has is the size that it has on this node.
func Wanted(c context.Context, api API, claim, pv port.APIKey, has int64, done func(int64, error)) {
	api.Get(c, claim, func(o port.APIObject, err error) {
		if err != nil {
			done(0, err)
			return
		}
		of := o.(*v1.PersistentVolumeClaim)
		if size := csi.Elsewhere(of, has); size > 0 || !csi.Resizes(of) {
			done(size, nil)
			return
		}
		api.Get(c, pv, func(o port.APIObject, err error) {
			if err != nil {
				done(0, err)
				return
			}
			done(csi.Outgrown(of, o.(*v1.PersistentVolume)), nil)
		})
	})
}

// refusal reports whether an expansion was finally refused. One that a driver could not be asked for, or that it never
// makes on nodes, was not.
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

// Infeasible reports whether an error is the refusal of an expansion that the claim says can't be done.
func Infeasible(err error) bool { return errors.As(err, new(infeasible)) }

func (e *Expansion) mark(c context.Context, from, to *v1.PersistentVolumeClaim, then func(error)) {
	e.API.Patch(c, port.APIPatch{Key: e.Claim, From: from, To: to, Status: true},
		func(_ port.APIObject, err error) { then(unmarked(e.Claim, err)) })
}

// unmarked is the error of an expansion whose progress can't be written into its claim, nil for none. Unlike what a
// driver says, it is never final.
func unmarked(claim port.APIKey, err error) error {
	if err == nil {
		return nil
	}
	return &port.Error{Kind: port.Unavailable, Verb: "PatchClaim", Object: claim.String(), Detail: err.Error()}
}

// Event says to a pod how the expansion of a PersistentVolume went, in the words of a kubelet. volume is its name in
// the pod.
func Event(pod *v1.Pod, pv, volume string, err error, now time.Time) port.Event {
	if err != nil {
		return port.Event{
			Pod: pod, Warning: true, Reason: "VolumeResizeFailed", At: now,
			Message: fmt.Sprintf("NodeExpandVolume.NodeExpandVolume failed for volume %q (%s): %s", pv, volume, err),
		}
	}
	text := fmt.Sprintf("MountVolume.NodeExpandVolume succeeded for volume %q %s", pv, pod.Spec.NodeName)
	return port.Event{Pod: pod, Reason: "FileSystemResizeSuccessful", At: now, Message: strings.TrimSpace(text)}
}

// ReadOnly says to a pod why the volume that it has just got stays smaller than it could be, in the words of a kubelet.
func ReadOnly(pod *v1.Pod, pv string, now time.Time) port.Event {
	return port.Event{
		Pod: pod, Warning: true, Reason: "FileSystemResizeFailed", At: now,
		Message: fmt.Sprintf("MountVolume.NodeExpandVolume failed for volume %q requested read-only file system", pv),
	}
}

// ToClaim says to a claim what e says to a pod that has it: people who have asked for another size look there (kubectl
// describe pvc). uid is the claim's.
func ToClaim(e port.Event, claim port.APIKey, uid types.UID) port.Event {
	e.Pod, e.Of = nil, &v1.ObjectReference{
		APIVersion: "v1", Kind: claim.Kind.String(), Namespace: claim.Namespace, Name: claim.Name, UID: uid,
	}
	return e
}
