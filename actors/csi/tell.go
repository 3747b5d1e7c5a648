package csi

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/volumes"
)

// A pod is told in one message what is new of its volumes, because there may be more of them than a mailbox has places.
// One with more than a few volumes is told of all that becomes new in a while. The while is costOfOne for each, so this
// takes but a small share of time.
const (
	few       = 32
	costOfOne = 10 * time.Microsecond
)

// tellMany is this actor's own timer for such a pod.
type tellMany struct{ uid types.UID }

func (tellMany) isCSIMessage() {}

// say has a pod told something new. Of what its release waits for the newest counts.
func (a *actor) say(uid types.UID, n volumes.CSINews) {
	u := a.pods[uid]
	if last := len(u.news) - 1; last >= 0 && n.Volume == "" && n.Failure == "" &&
		u.news[last].Volume == "" && u.news[last].Failure == "" {
		u.news[last] = n
		return
	}
	if len(u.news) == 0 && !u.telling {
		a.toTell = append(a.toTell, uid)
	}
	u.news = append(u.news, n)
}

// tellAll tells all pods of which this message brought something new: those with many volumes in a while.
func (a *actor) tellAll(ctx *kernel.Context[Message]) {
	for _, uid := range a.toTell {
		u := a.pods[uid]
		if u == nil || u.telling {
			continue
		}
		if n := max(len(u.uses), len(a.volumes.byPod[uid])); n > few {
			u.telling = true
			ctx.After(time.Duration(n)*costOfOne, tellMany{uid})
			continue
		}
		a.tellNow(uid, u)
	}
	a.toTell = a.toTell[:0]
}

func (a *actor) tellMany(uid types.UID) {
	if u := a.pods[uid]; u != nil && u.telling {
		u.telling = false
		a.tellNow(uid, u)
	}
}

func (a *actor) tellNow(uid types.UID, u *user) {
	if len(u.news) > 0 {
		a.deps.Answer(volumes.CSIAnswer{UID: uid, News: u.news})
		u.news = nil
	}
}

// tell tells the pods of a volume how far it is.
func (a *actor) tell(v *volume) {
	env := a.env(v)
	for _, t := range inOrder(v.Targets) {
		u := a.pods[t.Pod]
		switch {
		case u == nil:
		case u.going:
			a.tellGoing(t.Pod, v.Waits(t, env))
		default:
			for _, name := range u.usesOf(v.Key, t) {
				a.answer(v, env, t.Pod, name, u.uses[name])
			}
		}
	}
}

// walked tells the pod how far the change of its volume's group is.
func (a *actor) walked(m walked) {
	v := a.volumes.get(m.key)
	if v != nil && v.Busy != nil && v.Busy.Op == decide.PublishVolume && v.Busy.Target == m.target {
		v.Walk = decide.Walk{Reports: v.Walk.Reports + 1, Files: m.files}
		a.tell(v)
	}
}

// answer tells a pod of one volume, if that is new.
func (a *actor) answer(v *volume, env decide.Env, uid types.UID, name string, w *use) {
	t := w.spec.Target
	now := volumes.CSINews{Volume: name}
	path := v.paths[t]
	if path != "" && v.Ready(t) {
		now.Path = path
	} else {
		now.Waiting = v.Waits(t, env)
		now.Unattached = env.Driver != nil && env.Driver.Attach && !env.Attached && !v.Inline && !v.Attached
		if v.Busy != nil && v.Busy.Target == t {
			now.Walk = v.Walk
		}
		if why := a.deps.NotAttached; why != "" && env.Driver != nil && env.Driver.Attach && !env.Attached && !v.Inline {
			now.Waiting = why
		}
		if now.Waiting == "" {
			now.Waiting = w.told.Waiting // why it has failed last
		}
	}
	if w.told != now {
		w.told = now
		a.say(uid, now)
	}
}

// tellGoing tells a pod that it has released all, or what that waits for.
func (a *actor) tellGoing(uid types.UID, waits string) {
	u := a.pods[uid]
	if u == nil || !u.going || !a.known {
		return
	}
	if a.volumes.has(uid) {
		if waits != "" && waits != u.waits {
			u.waits = waits
			a.say(uid, volumes.CSINews{Waiting: waits})
		}
		return
	}
	a.tellNow(uid, u)
	delete(a.pods, uid)
	a.deps.Released(uid)
}
