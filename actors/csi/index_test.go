package csi

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestIndex: whatever comes and goes, the index finds what a walk over all volumes finds, and keeps nothing else.
func TestIndex(t *testing.T) {
	rand := rand.New(rand.NewPCG(1, 2))
	x, all := newIndex(), map[decide.Key]*volume{}
	for step := range 3000 {
		k := decide.Key{Driver: fmt.Sprint("d", rand.IntN(2)), Handle: fmt.Sprint("h", rand.IntN(6))}
		uid := types.UID(fmt.Sprint("u", rand.IntN(4)))
		at := decide.Target{Pod: uid, Name: fmt.Sprint("n", rand.IntN(2))}
		walked := x.all()
		before := slices.Clone(walked)
		switch v := all[k]; {
		case v == nil:
			v = &volume{Volume: decide.NewVolume(k, false)}
			all[k] = v
			x.add(v)
		case len(v.Targets) == 0:
			delete(all, k)
			x.remove(k)
		case rand.IntN(2) == 0:
			v.FoundPublished(decide.Found{Key: k, Target: at})
			x.note(v, at)
		default:
			delete(v.Targets, at)
			x.note(v, at)
		}
		if !slices.Equal(walked, before) {
			t.Fatalf("step %d: a walk was changed", step)
		}
		var want, there []*volume
		var of []publication
		for _, v := range all { // order-free: sorted
			want = append(want, v)
		}
		slices.SortFunc(want, inKeyOrder)
		for _, v := range want {
			for _, t := range inOrder(v.Targets) {
				if t.Pod == uid {
					of = append(of, publication{v, t})
				}
			}
			if v.Targets[at] != nil {
				there = append(there, v)
			}
		}
		beside := slices.SortedFunc(slices.Values(x.at(at)), inKeyOrder)
		if !slices.Equal(x.all(), want) || !slices.Equal(x.of(uid), of) || !slices.Equal(beside, there) ||
			x.has(uid) != (len(of) > 0) || x.get(k) != all[k] {
			t.Fatalf("step %d: %v, %v of %s, and %v; want %v, %v and %v", step, x.all(), x.of(uid), uid, beside, want, of, there)
		}
	}
	for k, v := range all { // order-free: all of them
		for _, t := range inOrder(v.Targets) {
			delete(v.Targets, t)
			x.note(v, t)
		}
		x.remove(k)
	}
	check.AtMost(t, len(x.byKey)+len(x.all())+len(x.byPod), 0, "left: %+v", x)
}
