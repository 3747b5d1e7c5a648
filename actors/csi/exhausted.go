package csi

import (
	"context"
	"fmt"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// exhausted is what the VolumeAttachment of a volume says that pods have waited for; empty: the node has room for it.
type exhausted struct {
	id   kernel.EffectID
	key  decide.Key
	text string
	err  error
}

func (exhausted) isCSIMessage() {}

const (
	// attachPatience is how long a pod waits for its volumes to be attached before it is looked at why, as in a kubelet.
	attachPatience = 2*time.Minute + 3*time.Second
	// LimitExceeded is the reason of a pod that ends because the node can't have more volumes of a driver (KEP-4876).
	LimitExceeded = "VolumeAttachmentLimitExceeded"
)

// lookAtAttachments reads why volumes are not attached that pods have waited for, of drivers that keep the number of
// volumes of a node up to date (nodeAllocatableUpdatePeriodSeconds).
func (a *actor) lookAtAttachments(ctx *kernel.Context[Message]) {
	for _, v := range a.volumes.all() {
		k := v.Key
		if env := a.env(v); v.examining.Busy() || !v.MayBeExhausted(env) || len(a.waiting(ctx, v)) == 0 {
			continue
		}
		api, key := a.deps.API, port.APIKey{Kind: port.VolumeAttachmentKind, Name: decide.AttachmentName(k, a.deps.Node)}
		e := kernel.Effect[Message]{
			Kind: "GetVolumeAttachment", Object: v.String(), Lane: "attachment/" + v.String(), Deadline: apiDeadline,
		}
		v.examining.Begin(portcall.Do(ctx, e, func(c context.Context, done func(string, error)) {
			api.Get(c, key, func(o port.APIObject, err error) {
				if err != nil {
					done("", err)
					return
				}
				done(decide.Exhausted(o.(*storagev1.VolumeAttachment)), nil)
			})
		}, func(id kernel.EffectID, text string, err error) Message { return exhausted{id, k, text, err} }))
	}
}

// waiting are the uses of a volume that have waited long, one of each pod.
func (a *actor) waiting(ctx *kernel.Context[Message], v *volume) (out []named) {
	for _, w := range a.usesOf(v) {
		if n := len(out); ctx.Now().Sub(w.since) >= attachPatience && (n == 0 || out[n-1].pod.UID != w.pod.UID) {
			out = append(out, w)
		}
	}
	return out
}

// exhausted ends the pods that wait for a volume for which there is no room on the node, and asks the driver how many
// volumes it takes by now: schedulers are to know.
func (a *actor) exhausted(ctx *kernel.Context[Message], m exhausted) {
	v := a.volumes.get(m.key)
	if v == nil || !v.examining.Take(m.id) {
		return
	}
	if m.err != nil || m.text == "" || !v.MayBeExhausted(a.env(v)) {
		return // it is looked at again
	}
	if d := a.drivers[m.key.Driver]; d != nil {
		d.timer.Stop()
		a.ask(ctx, d)
	}
	for _, w := range a.waiting(ctx, v) {
		why := fmt.Sprintf("Node has reached its volume attachment limit, rejecting pod. unattached volumes=[%s]: %s",
			w.name, m.text)
		a.deps.Events.Record(port.Event{Pod: w.pod, Warning: true, Reason: LimitExceeded, Message: why, At: ctx.Now()})
		a.deps.Reject(w.pod, LimitExceeded, why, ctx.Now())
	}
}
