package csi

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
)

// index are the volumes of the node: by key, in order, and by the directories where they are published. A message about
// one volume costs as much on a node, and for a pod, with many volumes as with few. One about all of them costs a walk.
type index struct {
	byKey map[decide.Key]*volume
	// order are all of them in the order of their keys, as they were at the last walk; changed: there are others by now.
	// It is replaced and never changed: a walk goes on with what there was when it began.
	order   []*volume
	changed bool
	// byPod are the publications of a pod: by their directory, for which more than one volume may wait.
	//
	// Invariant: it has v at t iff v.Targets has t.
	byPod map[types.UID]map[decide.Target][]*volume
}

func newIndex() index {
	return index{byKey: map[decide.Key]*volume{}, byPod: map[types.UID]map[decide.Target][]*volume{}}
}

// check says that the invariant does not hold.
func (x *index) check() error {
	const words = "csi: byPod: it has v at t iff v.Targets has t: %s of pod %s"
	for uid, of := range x.byPod { // order-free: any of them is told
		for t, all := range of { // order-free: any of them is told
			for _, v := range all {
				if v.Targets[t] == nil || x.byKey[v.Key] != v {
					return fmt.Errorf(words, v.Key, uid)
				}
			}
		}
	}
	for _, v := range x.byKey { // order-free: any of them is told
		for t := range v.Targets { // order-free: any of them is told
			if !slices.Contains(x.at(t), v) {
				return fmt.Errorf(words, v.Key, t.Pod)
			}
		}
	}
	return nil
}

// get is the volume of a key, nil if it is not known.
func (x *index) get(k decide.Key) *volume { return x.byKey[k] }

// all are the volumes in the order of their keys.
func (x *index) all() []*volume {
	if !x.changed {
		return x.order
	}
	x.order, x.changed = make([]*volume, 0, len(x.byKey)), false
	for _, v := range x.byKey { // order-free: sorted
		x.order = append(x.order, v)
	}
	slices.SortFunc(x.order, inKeyOrder)
	return x.order
}

func inKeyOrder(a, b *volume) int { return a.Compare(b.Key) }

func (x *index) add(v *volume) { x.byKey[v.Key], x.changed = v, true }

// remove forgets a volume that has no publication.
func (x *index) remove(k decide.Key) {
	delete(x.byKey, k)
	x.changed = true
}

// note notes whether a volume is, or is to be, published somewhere. It is called after each change of that.
func (x *index) note(v *volume, t decide.Target) {
	of := x.byPod[t.Pod]
	i := slices.Index(of[t], v)
	switch is := v.Targets[t] != nil; {
	case is == (i >= 0):
	case is:
		if of == nil {
			of = map[decide.Target][]*volume{}
			x.byPod[t.Pod] = of
		}
		of[t] = append(of[t], v)
	case len(of[t]) > 1:
		of[t] = slices.Delete(of[t], i, i+1)
	default:
		if delete(of, t); len(of) == 0 {
			delete(x.byPod, t.Pod)
		}
	}
}

// has reports whether a volume is, or is to be, published for a pod.
func (x *index) has(uid types.UID) bool { return len(x.byPod[uid]) > 0 }

// at are the volumes that are, or are to be, published in a directory.
func (x *index) at(t decide.Target) []*volume { return x.byPod[t.Pod][t] }

// publication is a volume and where it is, or is to be, published.
type publication struct {
	*volume
	target decide.Target
}

// of are all publications of a pod, in the order of the keys of their volumes.
func (x *index) of(uid types.UID) (out []publication) {
	for t, all := range x.byPod[uid] { // order-free: sorted
		for _, v := range all {
			out = append(out, publication{v, t})
		}
	}
	slices.SortFunc(out, func(a, b publication) int {
		return cmp.Or(inKeyOrder(a.volume, b.volume), a.target.Compare(b.target))
	})
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
