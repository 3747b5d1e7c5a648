package csi

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/volumes"
)

// user is a pod with volumes.
type user struct {
	// uses are by the name of the volume in the pod.
	uses map[string]*use
	// going: it releases all; waits is what it was told last.
	going bool
	waits string
	// news is what it is about to be told; telling: in a while.
	news    []volumes.CSINews
	telling bool
}

// use is one volume of a pod.
type use struct {
	pod  *v1.Pod
	spec *decide.Spec
	told volumes.CSINews
	// since is when it was asked for.
	since time.Time
}

// users are the pods in the order of their UIDs.
func (a *actor) users() []types.UID { return slices.Sorted(maps.Keys(a.pods)) }

func (a *actor) use(ctx *kernel.Context[Message], m volumes.UseCSI) {
	uid := m.Pod.UID
	u := a.pods[uid]
	if u == nil || u.going { // it has come back: what it does not use again is unpublished all the same
		u = &user{uses: map[string]*use{}}
		a.pods[uid] = u
	}
	var again []*volume // a claim can be named twice
	names := map[decide.Key]int{}
	for _, of := range m.Volumes {
		w := u.uses[of.Name]
		if w != nil && a.known && (w.spec.Key != of.Spec.Key || w.spec.Target != of.Spec.Target) {
			a.rebound(ctx, u, of.Name)
			w = nil
		}
		if w == nil {
			w = &use{since: ctx.Now()}
			u.uses[of.Name] = w
		}
		w.pod, w.spec, w.told = m.Pod, of.Spec, volumes.CSINews{}
		if !a.known || !a.want(uid, of.Name, w) {
			continue
		}
		v := a.volumes.get(of.Spec.Key)
		switch names[v.Key]++; names[v.Key] {
		case 1:
			a.advance(ctx, v)
		case 2:
			again = append(again, v)
		}
	}
	for _, v := range again { // once, however often each is named
		a.advance(ctx, v)
	}
}

// want notes that a pod needs a volume, unless another one is in its directory, which has the name of the
// PersistentVolume: one that was deleted and made again with another handle. It reports whether it has.
func (a *actor) want(uid types.UID, name string, w *use) bool {
	s := w.spec
	for _, v := range a.volumes.of(s.Pod) {
		k, p := v.Key, v.Targets[s.Target]
		if k == s.Key || p == nil || p.State == decide.None {
			continue
		}
		now := volumes.CSINews{Volume: name, Waiting: fmt.Sprintf(
			"volume %s of CSI driver %s is still published for the pod as %q; delete the pod to have it replaced by volume %s",
			k.Handle, k.Driver, s.Name, s.Handle)}
		if w.told != now {
			w.told = now
			a.say(uid, now)
		}
		return false
	}
	v := a.volume(s.Key, s.Inline)
	v.Use(s.Target, s)
	a.volumes.publishes(s.Pod, v)
	a.stale = true
	return true
}

// rebound forgets the use of a volume of a pod whose claim was bound to another volume since. What is published stays
// until the pod goes: its containers may use it.
func (a *actor) rebound(ctx *kernel.Context[Message], u *user, name string) {
	s := u.uses[name].spec
	delete(u.uses, name)
	v := a.volumes.get(s.Key)
	if v == nil || len(u.usesOf(s.Key, s.Target)) > 0 {
		return
	}
	v.Keep(s.Target)
	a.advance(ctx, v)
}

func (a *actor) release(ctx *kernel.Context[Message], uid types.UID) {
	u := a.pods[uid]
	if u == nil {
		u = &user{}
		a.pods[uid] = u
	}
	if !u.going {
		u.news = nil // it was of volumes that it needs no more
	}
	u.going, u.uses, u.waits = true, nil, ""
	if !a.known {
		return
	}
	for _, v := range a.volumes.of(uid) {
		for _, t := range targets(v, uid) {
			v.Release(t)
		}
		a.advance(ctx, v)
	}
	a.tellGoing(uid, "")
}
