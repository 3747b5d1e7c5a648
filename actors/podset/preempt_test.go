package podset_test

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
		r.counts = counts{r, short}
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

// TestPodThatWaitsForItsCPUsIsPreempted: it is taken down without having run, in the order of the queue, and what it asked
// for is given back before the critical pod asks.
func TestPodThatWaitsForItsCPUsIsPreempted(t *testing.T) {
	again := map[podspec.Origin][]string{podspec.File: {"assignments: refused c OutOfpods"}} // a static pod is tried again
	for _, source := range []podspec.Origin{podspec.API, podspec.File} {
		other := map[podspec.Origin]podspec.Origin{podspec.API: podspec.File, podspec.File: podspec.API}[source]
		r := newRig(t, 0, placing, func(r *rig) { r.room = 1 })
		vital := made("vital")
		priority := int32(podspec.SystemCritical)
		vital.Spec.Priority = &priority
		r.tells(node, r.listed(""), has(other, ""), has(source, "a"))
		r.in("a waits for its CPUs", "a Waiting")
		r.tells(wants(source, made("a"), vital, made("c")))
		r.in("a is taken down", "a Running, vital Waiting, c Rejected")
		r.want("it is told why", []string{"a:"}, "a: assign, stop in 30s: Preempted in order to admit critical pod (failed)")
		r.tells(ends("a", 0, 1))
		r.in("vital waits for its own", "a Finished, vital Waiting, c Rejected")
		r.want("a has given back what it asked for", []string{"assignments:"},
			append([]string{"assignments: release a", "assignments: place vital"}, again[source]...)...)
		r.tells(gives(2, "vital", 1, "0", nil))
		r.in("vital runs", "a Finished, vital Running, c Rejected")
	}
}
