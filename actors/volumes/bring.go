package volumes

import (
	"context"
	"errors"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// advance begins what can begin now, and tells the pod how far it is.
func (a *volumes) advance(ctx *kernel.Context[Message], uid types.UID) {
	p := a.pods[uid]
	op, at := p.Next(ctx.Now())
	p.wake(ctx, uid, at)
	switch op {
	case volumeplan.PreparePod:
		a.begin(ctx, uid, p, prepare, nil)
	case volumeplan.UnmountPod:
		a.begin(ctx, uid, p, unmount, nil)
	case volumeplan.Nothing, volumeplan.MountVolume, volumeplan.Refuse:
	}
	if p.Brings() {
		env := a.env(p)
		a.useCSI(p, env)
		for i := range p.Volumes {
			a.bring(ctx, uid, p, &p.Volumes[i], env)
		}
	}
	a.tell(p)
}

// bring begins to bring up one volume, if it can begin now.
func (a *volumes) bring(
	ctx *kernel.Context[Message], uid types.UID, p *user, v *volumeplan.Volume, env *volumeplan.Env,
) {
	op, at, why := p.NextOf(v, ctx.Now(), env)
	switch op {
	case volumeplan.MountVolume:
		a.begin(ctx, uid, p, mount, v)
	case volumeplan.Refuse:
		at = a.fail(ctx, p, v, why)
	case volumeplan.Nothing, volumeplan.PreparePod, volumeplan.UnmountPod:
	}
	p.wake(ctx, uid, at)
}

// advanceOne is advance after the mount of one volume has ended: of a pod that is not taken down, that changes nothing
// for its other volumes, of which there may be thousands. Only those of csi are asked for all together.
func (a *volumes) advanceOne(ctx *kernel.Context[Message], uid types.UID, v *volumeplan.Volume) {
	p := a.pods[uid]
	env := a.env(p)
	if p.Down() || v == nil || env.CSI && v.CSI != nil {
		a.advance(ctx, uid)
		return
	}
	a.bring(ctx, uid, p, v, env)
	a.tell(p)
}

// env is what decisions about a pod need to know beside it.
func (a *volumes) env(p *user) *volumeplan.Env {
	return &volumeplan.Env{CSI: a.deps.UseCSI != nil, Node: a.node, Taken: func(name string) bool {
		for _, o := range a.pods { // order-free: any
			if o != p && o.Has(name) {
				return true
			}
		}
		return false
	}}
}

// tag is what an effect is for, to a later incarnation.
type tag struct {
	uid  types.UID
	what step
}

// begin starts one effect, for a volume, or, without one, for the pod as a whole.
func (a *volumes) begin(
	ctx *kernel.Context[Message], uid types.UID, p *user, what step, v *volumeplan.Volume,
) {
	name, server, pool := "", "the file system", ""
	if v != nil {
		name = v.Name
		if v.Server != "" {
			server = v.Server
		}
	}
	if p.Later && what != unmount {
		pool = pod.LookPool
	}
	e := kernel.Effect[Message]{
		Kind: what.String(), Object: object(p.Object, uid, name), For: string(uid), Lane: what.String() + "/" +
			string(uid) + "/" + name,
		Tag: tag{uid, what}, Deadline: a.deps.Deadline, Pool: pool, Rank: lastOfLooks,
	}
	if v != nil && v.Walks(p.Object) {
		e.Deadline, e.Patience = kernel.NoDeadline, kernel.NoDeadline
	}
	var run func(context.Context, func(done, error))
	if v != nil {
		run = a.mounts(ctx, uid, p, v)
	} else {
		run = a.ofPod(p.Object, uid, what)
	}
	p.Begin(v, volumeplan.Call(portcall.Do(ctx, e, run, func(id kernel.EffectID, d done, err error) Message {
		d.id, d.uid, d.what, d.volume, d.err = id, uid, what, name, unanswered(err, server)
		return d
	})))
}

// ofPod makes the call of an effect for the pod as a whole. It holds nothing of the actor.
func (a *volumes) ofPod(w *v1.Pod, uid types.UID, what step) func(context.Context, func(done, error)) {
	host := a.deps.Host
	return func(c context.Context, answer func(done, error)) {
		finish := func(err error) { answer(done{}, err) }
		if what == unmount {
			host.UnmountPod(c, uid, finish)
			return
		}
		host.PreparePod(c, w, finish)
	}
}

// mounts makes the call that mounts a volume, and then grows it if the pod begins. It holds nothing of the actor.
func (a *volumes) mounts(
	ctx *kernel.Context[Message], uid types.UID, p *user, v *volumeplan.Volume,
) func(context.Context, func(done, error)) {
	host, self, growth, d := a.deps.Host, ctx.Self(), a.growth(ctx.Now(), uid, p, v), done{version: v.Version}
	r := port.MountVolume{Pod: p.Object, Volume: v.Volume, Content: v.Content, Persistent: v.Persistent,
		CHAP: v.CHAP, ReadOnly: v.ReadOnly, Size: v.Size, Label: v.Label, Patience: a.deps.Deadline}
	r.Walked = func(files int64) { self.Tell(walked{uid, r.Volume.Name, files}) }
	r.Taken = func(group int64) { self.Tell(shared{uid, r.Volume.Name, group}) }
	return func(c context.Context, answer func(done, error)) {
		host.MountVolume(c, r, func(path string, err error) {
			if d.path = path; err != nil || growth == nil {
				answer(d, err)
				return
			}
			growth.Run(c, func(size int64, err error) { d.size = size; answer(d, err) })
		})
	}
}

// unanswered names what did not answer in time.
func unanswered(err error, server string) error {
	e, is := errors.AsType[*port.Error](err)
	if !is || e.Kind != port.Deadline {
		return err
	}
	named := *e
	named.Detail = strings.Replace(e.Detail, "no answer", server+" did not answer", 1)
	return &named
}

// lastOfLooks puts the volumes of pods that run after looks at all of those: people
// are shown what the looks tell.
const lastOfLooks = int64(1) << 60

// walkCost is for how long a pod rests for each of its volumes before it goes through them again: those that failed are
// tried again each in its time, which are as many times.
const walkCost = 10 * time.Microsecond

// wake sets the pod's timer, unless it fires before anyway. At the zero time there is nothing to do.
func (p *user) wake(ctx *kernel.Context[Message], uid types.UID, at time.Time) {
	if at.IsZero() {
		return
	}
	if n := len(p.Volumes); n > volumeplan.Shown {
		if soonest := ctx.Now().Add(time.Duration(n) * walkCost); at.Before(soonest) {
			at = soonest
		}
	}
	p.retry.SetAt(ctx, at, again{uid})
}

func object(w *v1.Pod, uid types.UID, volume string) string {
	s := string(uid)
	if w != nil {
		s = w.Namespace + "/" + w.Name
	}
	if volume != "" {
		s += " " + volume
	}
	return s
}
