package podset

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podset"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestCheck breaks the invariants one by one.
func TestCheck(t *testing.T) {
	r := &record{Entry: podset.Entry{Pod: &v1.Pod{}}}
	a := &registry{of: map[types.UID]*record{"a": r}, ranked: []*record{r}, stuck: map[types.UID]bool{"b": true}}
	check.Error(t, a.Check())
	a.stuck["a"] = true
	check.Says(t, a.Check(), "stuck: none has a record", "it has one")
	clear(a.stuck)
	for words, e := range map[string]podset.Stops{
		"Removal: if it is not Kept, Stop is set":                   {Removal: podset.Saved},
		"Eviction: if it is not Kept, Stop is set":                  {Eviction: podset.Unsaved},
		"StopWithoutEviction: it is nil unless Eviction is Unsaved": {StopWithoutEviction: &podlife.Stop{}},
	} {
		r.Stops = e
		check.Says(t, a.Check(), words, "an entry")
	}
}

// TestLastWordOfAnOldActor: what an actor says after its pod was forgotten, and wanted again, is not of the next one.
func TestLastWordOfAnOldActor(t *testing.T) {
	r := &record{Entry: podset.Entry{Pod: &v1.Pod{}, State: podset.Running}}
	a := &registry{of: map[types.UID]*record{"a": r}, ranked: []*record{r}}
	a.finished(nil, pod.Finished{UID: "a"})
	check.Equal(t, r.State, podset.Running, "the state of a pod that has no actor yet")
}

// TestBesideThoseThatLive: a pod that an earlier incarnation has admitted takes its place while it waits for its turn.
func TestBesideThoseThatLive(t *testing.T) {
	waits := &record{Entry: podset.Entry{Pod: &v1.Pod{}, State: podset.Waiting}}
	a := &registry{ranked: []*record{waits}}
	check.Count(t, len(a.beside(&record{})), 0, "%d pods are beside one that was not admitted")
	waits.lives = true
	check.Count(t, len(a.beside(&record{})), 1, "%d pods are beside one that lives")
}

// TestPlaceState: each step of what a pod's containers have to themselves, and each that is impossible.
func TestPlaceState(t *testing.T) {
	steps := map[placeState][]placeState{
		nothing: {mayHold, asked}, mayHold: {asked}, asked: {answered}, answered: {answered, awaiting},
		awaiting: {answered, awaiting},
	}
	for from := nothing; from <= awaiting; from++ {
		check.Equal(t, from.asked(), from == asked || from.answered(), "%v was asked for", from)
		for to := nothing; to <= awaiting; to++ {
			p := place{state: from}
			panics := func() (is bool) {
				defer func() { is = recover() != nil }()
				p.become(to)
				return false
			}()
			check.Equal(t, !panics, slices.Contains(steps[from], to), "from %v to %v: possible", from, to)
		}
	}
}
