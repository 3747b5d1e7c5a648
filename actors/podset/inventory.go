package podset

import (
	"maps"
	"slices"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/apipod"
	"github.com/troupe-dev/troupe/actors/decide/manifest"
	"github.com/troupe-dev/troupe/actors/decide/podset"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
)

// Inventory is this actor's state of its pods; podview turns it into views. What it points at is
// shared and never changed.
type Inventory struct {
	// Conditions that block all starts and stops: the first list of the runtime and of the actors of pods, the pods that
	// gc is removing, checkpoints, and sources.
	NotListed, AsksCollected bool
	Loading                  []string
	Unseen                   []podspec.Origin
	// Pods are in order of age: all, or those of the name that was asked for. Mirrors is how many mirror pods the
	// apiserver has, or is to have; 0 if a name was asked for.
	Pods     []Fact
	Problems []manifest.Problem
	Mirrors  int
}

// Complete says whether Pods are all that live here: nothing is left to find out since this actor started.
func (i *Inventory) Complete() bool {
	return !i.NotListed && !i.AsksCollected && len(i.Loading) == 0 && len(i.Unseen) == 0
}

// Fact is the state of one pod.
type Fact struct {
	podset.Entry
	// Ref is the pod's actor, zero if there is none.
	Ref kernel.Ref[pod.Message]
	// Report is the last one. Its status is nil if there was none.
	Report pod.Report
	// Rejected is why the pod was not admitted, nil if it was.
	Rejected *admit.Rejection
	// Crash is the last crash of the pod's actor since it reported.
	Crash *kernel.CrashReport
	// Behind is which pod of its name it waits for; empty for none.
	Behind string
	// Found: the runtime had a part of the pod before this actor began.
	Found bool
}

// inventory copies the state, of all pods or of those of a name. It is made for each query, so that a pod costs nothing
// between queries. Each client that follows a log asks for its pod once a second.
func (a *registry) inventory(namespace, name string) Inventory {
	i := Inventory{NotListed: a.listed.IsZero() || !a.childrenKnown, AsksCollected: a.collecting, Unseen: a.unseen()}
	if name == "" {
		i.Pods, i.Mirrors = make([]Fact, 0, len(a.ranked)), apipod.MirroredCount(a.statics.Pods)
	}
	if !a.given.Known() {
		i.Loading = append(i.Loading, allocationsFile.Name)
	}
	if !a.stops.Known() {
		i.Loading = append(i.Loading, stopsFile.Name)
	}
	for _, r := range a.ranked {
		if name != "" && (r.Pod.Name != name || r.Pod.Namespace != namespace) {
			continue
		}
		_, listed := a.runtime[r.Pod.UID]
		_, behind := a.behind(r)
		i.Pods = append(i.Pods, Fact{
			Entry: r.Entry, Ref: r.ref, Report: r.report, Rejected: r.reject, Crash: r.crash,
			Behind: behind, Found: listed || r.found,
		})
	}
	for _, source := range slices.Sorted(maps.Keys(a.wanted)) {
		i.Problems = append(i.Problems, a.wanted[source].Problems...)
	}
	return i
}
