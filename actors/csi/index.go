package csi

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
)

// index are the volumes of the node: by key, in order, and by pod. A message about one volume or one pod costs as much
// on a node with many volumes as on one with few.
type index struct {
	byKey map[decide.Key]*volume
	// order are all of them in the order of their keys. It is replaced and never changed: a walk goes on with what there
	// was when it began.
	order []*volume
	// byPod are those of a pod in the order of their keys. Some may be over by now: of looks.
	byPod map[types.UID][]*volume
}

func newIndex() index {
	return index{byKey: map[decide.Key]*volume{}, byPod: map[types.UID][]*volume{}}
}

// get is the volume of a key, nil if it is not known.
func (x *index) get(k decide.Key) *volume { return x.byKey[k] }

// all are the volumes in the order of their keys.
func (x *index) all() []*volume { return x.order }

func byKey(v *volume, k decide.Key) int { return v.Compare(k) }

func (x *index) add(v *volume) {
	x.byKey[v.Key] = v
	at, _ := slices.BinarySearchFunc(x.order, v.Key, byKey)
	x.order = slices.Insert(slices.Clip(x.order), at, v)
}

func (x *index) remove(k decide.Key) {
	at, is := slices.BinarySearchFunc(x.order, k, byKey)
	if !is {
		return
	}
	delete(x.byKey, k)
	x.order = slices.Concat(x.order[:at], x.order[at+1:])
}

// publishes notes that a volume is, or is to be, published for a pod.
func (x *index) publishes(uid types.UID, v *volume) {
	at, is := slices.BinarySearchFunc(x.byPod[uid], v.Key, byKey)
	switch {
	case !is:
		x.byPod[uid] = slices.Insert(slices.Clip(x.byPod[uid]), at, v)
	case x.byPod[uid][at] != v: // one of this key was over, and is back
		x.byPod[uid] = slices.Clone(x.byPod[uid])
		x.byPod[uid][at] = v
	}
}

// of are the volumes that have a publication for a pod, in the order of their keys.
func (x *index) of(uid types.UID) []*volume {
	over := func(v *volume) bool { return x.byKey[v.Key] != v || len(targets(v, uid)) == 0 }
	if slices.ContainsFunc(x.byPod[uid], over) {
		x.byPod[uid] = slices.DeleteFunc(slices.Clone(x.byPod[uid]), over)
	}
	if len(x.byPod[uid]) == 0 {
		delete(x.byPod, uid)
	}
	return x.byPod[uid]
}

// targets are the publications of a volume for a pod, in order.
func targets(v *volume, uid types.UID) (out []decide.Target) {
	for t := range v.Targets { // order-free: sorted
		if t.Pod == uid {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, decide.Target.Compare)
	return out
}

// inOrder are the keys of a map of publications, most of which has one.
func inOrder[V any](of map[decide.Target]V) []decide.Target {
	out := make([]decide.Target, 0, len(of))
	for t := range of { // order-free: sorted
		out = append(out, t)
	}
	slices.SortFunc(out, decide.Target.Compare)
	return out
}
