package pods_test

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// TestCriticalPodTakesThePlaceOfAnother: the other is stopped, the critical pod waits for its end, and is then
// admitted. Nobody else goes while it waits.
func TestCriticalPodTakesThePlaceOfAnother(t *testing.T) {
	short := map[v1.ResourceName]int{}
	r := newRig(t, 0, func(r *rig) {
		r.room = 2
		r.preempted = func(of v1.ResourceName) { short[of]++ }
	})
	vital := made("vital")
	priority := int32(podspec.SystemCritical)
	vital.Spec.Priority = &priority
	all := []*v1.Pod{made("a"), made("b")}
	r.tells(node, r.listed(""), has(podspec.File, ""), wants(podspec.API, all...))
	r.in("full", "a Running, b Running")
	r.tells(wants(podspec.API, append(slices.Clone(all), made("c"))...))
	r.in("another pod is refused", "a Running, b Running, c Rejected")
	all = append(all, vital)
	r.tells(wants(podspec.API, all...), wants(podspec.API, all...))
	r.in("it waits", "a Running, b Running, vital Waiting")
	r.want("one is stopped, by its own grace period", []string{"a:", "b:", "vital:", "event: b"},
		"a: assign", "b: assign", "event: b Preempting", "b: assign, look, stop in 30s: Preempted in order to admit critical pod (failed)")
	r.tells(ends("b", 0, 1))
	r.in("its place is free", "a Running, b Finished, vital Running")
	if len(short) != 1 || short[v1.ResourcePods] != 1 {
		t.Errorf("counted: %v, want one for pods", short)
	}
}

// TestStaticPodComesBackWhenThereIsRoom: one that was refused is not refused for ever.
func TestStaticPodComesBackWhenThereIsRoom(t *testing.T) {
	r := newRig(t, 0, func(r *rig) { r.reject["static"] = "OutOfcpu" })
	r.tells(node, r.listed(""), has(podspec.File, "static"), has(podspec.API, "a"))
	r.in("no room", "static Rejected, a Running")
	delete(r.reject, "static")
	r.tells(ends("a", 0, 1))
	r.in("there is room", "static Running, a Finished")
}
