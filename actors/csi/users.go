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
	// uses are by the name of the volume in the pod, places the same by what is published where: a claim can be named
	// twice.
	uses   map[string]*use
	places map[place]map[string]*use
	// going: it releases all; waits is what it was told last.
	going bool
	waits string
	// news is what it is about to be told; telling: in a while.
	news    []volumes.CSINews
	telling bool
}

// place is a publication of a volume.
type place struct {
	key    decide.Key
	target decide.Target
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
		u = &user{uses: map[string]*use{}, places: map[place]map[string]*use{}}
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
		}
		w.pod, w.told = m.Pod, volumes.CSINews{}
		u.needs(of.Name, w, of.Spec)
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

// needs notes what a volume of the pod is by now.
func (u *user) needs(name string, w *use, s *decide.Spec) {
	u.forget(name)
	w.spec = s
	u.uses[name] = w
	at := place{s.Key, s.Target}
	if u.places[at] == nil {
		u.places[at] = map[string]*use{}
	}
	u.places[at][name] = w
}

func (u *user) forget(name string) {
	w := u.uses[name]
	if w == nil {
		return
	}
	delete(u.uses, name)
	at := place{w.spec.Key, w.spec.Target}
	if delete(u.places[at], name); len(u.places[at]) == 0 {
		delete(u.places, at)
	}
}

// usesOf are the volumes of the pod that are one publication, by their names in order: a claim can be named twice.
func (u *user) usesOf(k decide.Key, t decide.Target) []string {
	if u == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(u.places[place{k, t}]))
}

// named is one volume of a pod, with its name there.
type named struct {
	name string
	*use
}

// usesOf are the uses of a volume, pod by pod.
func (a *actor) usesOf(v *volume) (out []named) {
	for _, t := range inOrder(v.Targets) {
		u := a.pods[t.Pod]
		for _, name := range u.usesOf(v.Key, t) {
			out = append(out, named{name, u.uses[name]})
		}
	}
	return out
}

// want notes that a pod needs a volume, unless another one is in its directory, which has the name of the
// PersistentVolume: one that was deleted and made again with another handle. It reports whether it has.
func (a *actor) want(uid types.UID, name string, w *use) bool {
	s := w.spec
	for _, v := range a.volumes.at(s.Target) {
		k := v.Key
		if k == s.Key || v.Targets[s.Target].State == decide.None {
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
	a.volumes.note(v, s.Target)
	return true
}

// rebound forgets the use of a volume of a pod whose claim was bound to another volume since. What is published stays
// until the pod goes: its containers may use it.
func (a *actor) rebound(ctx *kernel.Context[Message], u *user, name string) {
	s := u.uses[name].spec
	u.forget(name)
	v := a.volumes.get(s.Key)
	if v == nil || len(u.places[place{s.Key, s.Target}]) > 0 {
		return
	}
	v.Keep(s.Target)
	a.volumes.note(v, s.Target)
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
	u.going, u.uses, u.places, u.waits = true, nil, nil, ""
	if !a.known {
		return
	}
	all := a.volumes.of(uid)
	for _, p := range all {
		p.Release(p.target)
		a.volumes.note(p.volume, p.target)
	}
	for i, p := range all {
		if i == 0 || all[i-1].volume != p.volume {
			a.advance(ctx, p.volume)
		}
	}
	a.tellGoing(uid, "")
}
