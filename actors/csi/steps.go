package csi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	storagev1 "k8s.io/api/storage/v1"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
	"github.com/troupe-dev/troupe/actors/volumes"
)

// volumeLane is the beginning of the lanes of volumes.
const volumeLane = "volume/"

// begin begins a step of a volume.
func (a *actor) begin(ctx *kernel.Context[Message], v *volume, s decide.Step) {
	stage := v.Begin(s)
	if s.Op == decide.UnpublishVolume {
		delete(v.paths, s.Target)
		a.unmeasured(ctx, v, s.Target)
	}
	e := kernel.Effect[Message]{
		Kind: s.Op.String(), Object: v.String(), For: string(v.For(s)), Lane: volumeLane + v.String(),
		Deadline: CallDeadline,
	}
	v.until = time.Time{}
	switch s.Op { //nolint:exhaustive // the others have the deadline of a call
	case decide.Attachment:
		e.Deadline = apiDeadline
	case decide.PublishVolume:
		v.until = ctx.Now().Add(unneeded)
		if v.Walks(s, a.object(v.Driver)) {
			e.Deadline, e.Patience = kernel.NoDeadline, kernel.NoDeadline
		}
	}
	k := v.Key
	run := a.run(ctx.Self(), v, s, stage, ctx.Now())
	v.call = portcall.Do(ctx, e, run, func(id kernel.EffectID, m stepped, err error) Message {
		m.id, m.key, m.step, m.err = id, k, s, err
		return m
	})
}

// run makes the call of a step. It holds nothing of the actor.
func (a *actor) run(
	self kernel.Ref[Message], v *volume, s decide.Step, stage *decide.Stage, now time.Time,
) func(context.Context, func(stepped, error)) {
	drivers, api, of := a.deps.Drivers, a.deps.API, port.CSIDriver{Name: v.Driver}
	if d := a.drivers[v.Driver]; d != nil {
		of = d.CSIDriver
	}
	left := v.Left(s)
	switch s.Op {
	case decide.Attachment:
		key := port.APIKey{Kind: port.VolumeAttachmentKind, Name: decide.AttachmentName(v.Key, a.deps.Node)}
		return func(c context.Context, done func(stepped, error)) {
			api.Get(c, key, func(o port.APIObject, err error) {
				if err != nil {
					done(stepped{}, err)
					return
				}
				with, why := decide.AttachmentOf(o.(*storagev1.VolumeAttachment))
				if why != "" {
					err = &port.Error{Kind: port.StateConflict, Verb: "GetVolumeAttachment", Object: key.Name, Detail: why}
				}
				done(stepped{context: with}, err)
			})
		}
	case decide.StageVolume:
		return func(c context.Context, done func(stepped, error)) {
			drivers.StageVolume(c, of, *stage, func(err error) { done(stepped{}, err) })
		}
	case decide.PublishVolume:
		d := a.object(v.Driver)
		spec := v.Targets[s.Target].Spec
		publish, key := v.Publishing(s.Target, d, a.deps.Node), v.Key
		tell := func(files int64) { self.Tell(walked{key, s.Target, files}) }
		return func(c context.Context, done func(stepped, error)) {
			withTokens(c, api, spec, d.Tokens, func(token string, err error) {
				if err != nil {
					done(stepped{}, err)
					return
				}
				publish.AddToken(d, token)
				drivers.PublishVolume(c, of, publish, tell, func(path string, err error) { done(stepped{path: path}, err) })
			})
		}
	case decide.UnpublishVolume:
		return func(c context.Context, done func(stepped, error)) {
			drivers.UnpublishVolume(c, of, left, func(err error) { done(stepped{}, err) })
		}
	case decide.ExpandVolume:
		return a.expand(v, of, now)
	case decide.UnstageVolume:
		return func(c context.Context, done func(stepped, error)) {
			drivers.UnstageVolume(c, of, left, func(err error) { done(stepped{}, err) })
		}
	default:
		panic(fmt.Sprintf("csi: there is no step %d", s.Op))
	}
}

// withTokens gets the tokens that a driver wants of the pod's service account, as the value of an attribute; empty if
// it wants none.
func withTokens(
	c context.Context, api API, s *decide.Spec, wanted []storagev1.TokenRequest, done func(string, error),
) {
	out := map[string]authenticationv1.TokenRequestStatus{}
	var next func(int)
	next = func(i int) {
		if i == len(wanted) {
			if i == 0 {
				done("", nil)
				return
			}
			text, err := json.Marshal(out)
			done(string(text), err)
			return
		}
		r := authenticationv1.TokenRequestSpec{
			ExpirationSeconds: wanted[i].ExpirationSeconds,
			BoundObjectRef: &authenticationv1.BoundObjectReference{
				APIVersion: "v1", Kind: "Pod", Name: s.PodName, UID: s.Pod,
			},
		}
		if wanted[i].Audience != "" {
			r.Audiences = []string{wanted[i].Audience}
		}
		api.CreateToken(c, s.Namespace, s.ServiceAccount, r, func(t authenticationv1.TokenRequestStatus, err error) {
			if err != nil {
				done("", &port.Error{Kind: port.NotCalled, Verb: "CreateToken", Object: s.Namespace + "/" + s.ServiceAccount,
					Detail: err.Error()})
				return
			}
			out[wanted[i].Audience] = t
			next(i + 1)
		})
	}
	next(0)
}

func (a *actor) stepped(ctx *kernel.Context[Message], m stepped) {
	v := a.volumes.get(m.key)
	if v == nil || v.call != m.id {
		return // late: the step was counted as one that may have worked
	}
	v.call = 0
	if m.step.Op == decide.ExpandVolume {
		o := a.expanded(ctx, v, m.size, m.err)
		if o != decide.Unsure {
			m.err = nil
		}
		v.End(o, ctx.Now())
	} else {
		v.End(port.CSIOutcome(m.err), ctx.Now())
		a.volumes.note(v, m.step.Target)
	}
	switch {
	case m.err != nil:
		a.failed(ctx, v, m)
	case m.step.Op == decide.Attachment:
		v.Attached, v.Context = true, m.context
	case m.step.Op == decide.PublishVolume:
		v.paths[m.step.Target] = m.path
	}
	a.advance(ctx, v)
	a.tellGoing(m.step.Target.Pod, "")
}

// prefixes are the beginnings of messages that users of the kubelet know.
var prefixes = [...]string{
	decide.Attachment: "AttachVolume.Attach", decide.StageVolume: "MountVolume.MountDevice",
	decide.PublishVolume: "MountVolume.SetUp", decide.UnpublishVolume: "UnmountVolume.TearDown",
	decide.UnstageVolume: "UnmountDevice", decide.ExpandVolume: "NodeExpandVolume.NodeExpandVolume",
}

// devicePrefixes are those for a volume that is a device, where they differ.
var devicePrefixes = map[decide.Op]string{
	decide.StageVolume: "MapVolume.SetUpDevice", decide.PublishVolume: "MapVolume.MapPodDevice",
	decide.UnpublishVolume: "UnmapVolume.UnmapPodDevice", decide.UnstageVolume: "UnmapDevice.TearDownDevice",
}

// failed notes why a step has failed, and says it to the pods that it is for.
func (a *actor) failed(ctx *kernel.Context[Message], v *volume, m stepped) {
	v.Fail(m.step, m.err.Error(), ctx.Now())
	ctx.Log().Warn().Str("driver", v.Driver).Str("volume", v.Handle).Str("call", m.step.Op.String()).
		Str("pod", string(m.step.Target.Pod)).Str("error", m.err.Error()).
		Msg("call of the CSI driver for a volume failed; retrying")
	if m.step.Op == decide.ExpandVolume {
		return // an event was recorded
	}
	all := []decide.Target{m.step.Target}
	if m.step.Target == (decide.Target{}) {
		all = inOrder(v.Targets)
	}
	for _, t := range all {
		prefix := prefixes[m.step.Op]
		if p := v.Targets[t]; p != nil && p.Spec != nil && p.Spec.Block {
			prefix = cmp.Or(devicePrefixes[m.step.Op], prefix)
		}
		text := fmt.Sprintf("%s failed for volume %q : %s", prefix, t.Name, m.err.Error())
		u := a.pods[t.Pod]
		if path := v.paths[t]; path != "" { // it is there, and stays
			if m.step.Op == decide.PublishVolume {
				for _, name := range u.usesOf(m.key, t) {
					a.say(t.Pod, volumes.CSINews{Volume: name, Path: path, Failure: text})
				}
			}
			continue
		}
		if u != nil && u.going {
			u.waits = text
			a.say(t.Pod, volumes.CSINews{Failure: text, Waiting: text})
		}
		for _, name := range u.usesOf(m.key, t) {
			u.uses[name].told = volumes.CSINews{Volume: name, Waiting: text}
			a.say(t.Pod, volumes.CSINews{Volume: name, Failure: text, Waiting: text})
		}
	}
}
