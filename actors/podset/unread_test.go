package podset_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/pleg"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestUnreadPod: a pod of which a part can't be read begins when that is known, and people are told; others begin at
// once. If it has an actor, that hears nothing.
func TestUnreadPod(t *testing.T) {
	bad := func(l podset.Listed) podset.Listed {
		l.Runtime.Unread = []observed.Unread{{UID: "b", Why: "container c1: panic"}, {UID: "c", Why: "container c2: panic"}}
		return l
	}
	only := []string{"a:", "b:", "c:", "event:"}
	r := newRig(t, 0)
	r.tells(node, bad(r.listed("a")), has(podspec.File, "a b c"))
	r.want("the first list", only, "a: assign, 1 sandboxes", "event: b FailedSync", "event: c FailedSync")
	r.tells(has(podspec.API, ""))
	r.want("people are told once", only)
	seen := r.listed("b").Runtime.Pods[0]
	r.tells(podset.Seen{Seen: pleg.Seen{Ref: seen.Ref, View: seen.Pod, Listed: r.Now()}})
	r.want("it can be read", only, "b: assign, 1 sandboxes")
	r.tells(podset.Seen{Seen: pleg.Seen{Ref: observed.PodRef{UID: "c"}, Listed: r.Now()}})
	r.want("it is gone", only, "c: assign")
	r.tells(bad(r.listed("a")))
	r.want("another list of all", only, "a: seen 1 sandboxes")
}

// TestUnreadLives: what runs of a pod that no source has and that can't be read is not taken for a leftover.
func TestUnreadLives(t *testing.T) {
	r := newRig(t, 0)
	l := r.listed("a")
	l.Runtime.Unread = []observed.Unread{{UID: "b", Why: "container c1: panic"}}
	r.tells(node, l, has(podspec.File, "a"), has(podspec.API, ""))
	var living map[types.UID]bool
	r.tells(podset.Living{Up: true, Reply: func(all map[types.UID]bool, _ bool) { living = all }})
	check.Deep(t, living, map[types.UID]bool{"a": true, "b": true}, "the living")
}
