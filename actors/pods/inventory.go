package pods

import (
	"maps"
	"slices"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/manifest"
	"github.com/troupe-dev/troupe/actors/decide/podset"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
)

// Inventory is all that this actor knows of its pods, as it is. What people make of it is podview's. What
// it points at is shared, and never changed.
type Inventory struct {
	// What is missing before this actor begins or stops all pods: the first list of the runtime, the pods
	// that gc is removing, checkpoints, and sources.
	NotListed, AsksCollected bool
	Loading                  []string
	Unseen                   []podspec.Origin
	// Pods are in order of age.
	Pods     []Fact
	Problems []manifest.Problem
}

// Fact is what is known of one pod.
type Fact struct {
	podset.Entry
	// Ref is the pod's actor, zero if there is none.
	Ref kernel.Ref[pod.Message]
	// Report is the last one, without a status if there was none.
	Report pod.Report
	// Rejected is why the pod was not admitted, nil if it was.
	Rejected *admit.Rejection
	// Crash is the last crash of the pod's actor since it reported.
	Crash *kernel.CrashReport
	// Found: the runtime had something of the pod before this actor began.
	Found bool
}

// inventory copies what is known. It is made for each question, so that a pod costs nothing meanwhile.
func (a *pods) inventory() Inventory {
	i := Inventory{
		NotListed: !a.listed, AsksCollected: a.collecting, Unseen: a.unseen(), Pods: make([]Fact, 0, len(a.ranked)),
	}
	if a.given.loading != 0 {
		i.Loading = append(i.Loading, checkpointName)
	}
	if a.stops.loading != 0 {
		i.Loading = append(i.Loading, stopsName)
	}
	for _, r := range a.ranked {
		_, listed := a.runtime[r.Pod.UID]
		i.Pods = append(i.Pods, Fact{
			Entry: r.Entry, Ref: r.ref, Report: r.report, Rejected: r.reject, Crash: r.crash, Found: listed || r.found,
		})
	}
	for _, name := range slices.Sorted(maps.Keys(a.wanted)) {
		i.Problems = append(i.Problems, a.wanted[name].Problems...)
	}
	return i
}
