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
		case rand.IntN(4) == 0:
			delete(all, k)
			x.remove(k)
		case rand.IntN(2) == 0:
			v.FoundPublished(decide.Found{Key: k, Target: at})
			x.publishes(uid, v)
		default:
			delete(v.Targets, at)
		}
		if !slices.Equal(walked, before) {
			t.Fatalf("step %d: a walk was changed", step)
		}
		var want, of []*volume
		for _, v := range all { // order-free: sorted
			want = append(want, v)
			if len(targets(v, uid)) > 0 {
				of = append(of, v)
			}
		}
		inOrder := func(a, b *volume) int { return a.Compare(b.Key) }
		slices.SortFunc(want, inOrder)
		slices.SortFunc(of, inOrder)
		if !slices.Equal(x.all(), want) || !slices.Equal(x.of(uid), of) || x.get(k) != all[k] {
			t.Fatalf("step %d: %v and %v of %s; want %v and %v", step, x.all(), x.of(uid), uid, want, of)
		}
	}
	for k := range all { // order-free: all of them
		x.remove(k)
	}
	for i := range 4 {
		x.of(types.UID(fmt.Sprint("u", i)))
	}
	check.AtMost(t, len(x.byKey)+len(x.order)+len(x.byPod), 0, "left: %+v", x)
}
