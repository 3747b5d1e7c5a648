package volumes

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// advance begins what can begin now, and tells the pod how far it is.
func (a *volumes) advance(ctx *kernel.Context[Message], uid types.UID) {
	p := a.pods[uid]
	switch {
	case p.down:
		if a.releaseCSI(p, uid) && len(p.coming) == 0 {
			a.begin(ctx, uid, unmount, nil)
		}
	case !p.prepared:
		a.begin(ctx, uid, prepare, nil)
	default:
		a.useCSI(p)
		for i := range p.plan {
			a.bring(ctx, p, uid, &p.plan[i])
		}
	}
	a.tell(p)
}

// bring begins to bring up one volume of a pod that is prepared, if it can begin now.
func (a *volumes) bring(ctx *kernel.Context[Message], p *volumed, uid types.UID, m *volumeplan.Mount) {
	if p.running.Has(call{mount, m.Name}) {
		return
	}
	there := p.paths.Has(m.Name)
	// A disk that is there needs no secrets any more, and the volume of a claim no claim.
	if a.ofCSI(p, m) || there && (m.Server != "" || m.Claimed && m.Err != nil) {
		return
	}
	if !there || p.versions.At(m.Name) != m.Version || m.Err != nil {
		a.begin(ctx, uid, mount, m)
	}
}

// advanceOne is advance after the mount of one volume has ended: of a pod that is not taken down, that changes nothing
// for its other volumes, of which there may be thousands.
func (a *volumes) advanceOne(ctx *kernel.Context[Message], uid types.UID, volume string) {
	p := a.pods[uid]
	m := p.named(volume)
	if p.down || !p.prepared || m == nil {
		a.advance(ctx, uid)
		return
	}
	a.bring(ctx, p, uid, m)
	a.tell(p)
}

// tag is what an effect is for, to a later incarnation.
type tag struct {
	uid  types.UID
	what step
}

// begin starts one effect, unless it runs already, waits for its next try, or
// can't be.
func (a *volumes) begin(ctx *kernel.Context[Message], uid types.UID, what step, m *volumeplan.Mount) {
	p := a.pods[uid]
	name := ""
	if m != nil {
		name = m.Name
	}
	server := "the file system"
	if m != nil && m.Server != "" {
		server = m.Server
	}
	key := call{what, name}
	if p.running.Has(key) {
		return
	}
	var obstacle error
	if m != nil {
		if obstacle = a.obstacle(p, m); unknown(obstacle) {
			return // it is told when it is known
		}
	}
	if f, failed := p.failures.Get(key); failed && !f.again {
		if wait := f.at.Add(backoff.Retry(a.deps.Backoff, f.count)).Sub(ctx.Now()); wait > 0 {
			p.wake(ctx, uid, ctx.Now().Add(wait))
			return
		}
	}
	if obstacle != nil {
		count := a.fail(ctx, p, key, obstacle)
		p.wake(ctx, uid, ctx.Now().Add(backoff.Retry(a.deps.Backoff, count)))
		return
	}
	w, pool := p.pod, ""
	if p.later && what != unmount {
		pool = pod.LookPool
	}
	e := kernel.Effect[Message]{
		Kind: what.String(), Object: object(w, uid, name), For: string(uid), Lane: what.String() + "/" +
			string(uid) + "/" + name,
		Tag: tag{uid, what}, Deadline: a.deps.Deadline, Pool: pool, Rank: lastOfLooks,
	}
	if what == mount && m.Walks(w) {
		e.Deadline, e.Patience = kernel.NoDeadline, kernel.NoDeadline
	}
	run := a.run(ctx.Self(), ctx.Now(), w, uid, what, m)
	p.running.Set(key, portcall.Do(ctx, e, run, func(id kernel.EffectID, d done, err error) Message {
		d.id, d.uid, d.what, d.volume, d.err = id, uid, what, name, unanswered(err, server)
		return d
	}))
}

// run makes the call of one effect. It holds nothing of the actor.
func (a *volumes) run(
	self kernel.Ref[Message], now time.Time, w *v1.Pod, uid types.UID, what step, m *volumeplan.Mount,
) func(context.Context, func(done, error)) {
	host, growth := a.deps.Host, a.growth(now, uid, what, m)
	var r port.MountVolume
	var d done
	if m != nil {
		r = port.MountVolume{Pod: w, Volume: m.Volume, Content: m.Content, Persistent: m.Persistent,
			CHAP: m.CHAP, ReadOnly: m.ReadOnly, Size: m.Size, Label: m.Label, Patience: a.deps.Deadline}
		r.Walked = func(files int64) { self.Tell(walked{uid, r.Volume.Name, files}) }
		r.Taken = func(group int64) { self.Tell(shared{uid, r.Volume.Name, group}) }
		d.version = m.Version
	}
	return func(c context.Context, answer func(done, error)) {
		finish := func(err error) { answer(d, err) }
		switch what {
		case prepare:
			host.PreparePod(c, w, finish)
		case mount:
			host.MountVolume(c, r, func(path string, err error) {
				if d.path = path; err != nil || growth == nil {
					finish(err)
					return
				}
				growth.Run(c, func(size int64, err error) { d.size = size; finish(err) })
			})
		case unmount:
			host.UnmountPod(c, uid, finish)
		case grow: // by look
		}
	}
}

// lastOfLooks puts the volumes of pods that run after looks at all of those: people
// are shown what the looks tell.
const lastOfLooks = int64(1) << 60

// walkCost is for how long a pod rests for each of its volumes before it goes through them again: those that failed are
// tried again each in its time, which are as many times.
const walkCost = 10 * time.Microsecond

// wake sets the pod's timer, unless it fires before anyway.
func (p *volumed) wake(ctx *kernel.Context[Message], uid types.UID, at time.Time) {
	if n := len(p.plan); n > shownMost {
		if soonest := ctx.Now().Add(time.Duration(n) * walkCost); at.Before(soonest) {
			at = soonest
		}
	}
	if p.retry != nil {
		if !at.Before(p.retryAt) {
			return
		}
		p.retry()
	}
	p.retryAt = at
	p.retry = ctx.After(at.Sub(ctx.Now()), again{uid})
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
