package podset_test

import (
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/pleg"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/tests/check"
)

// running is a node with one static pod that runs.
func runningNode(t *testing.T, change ...func(r *rig)) *rig {
	t.Helper()
	r := newRig(t, 0, change...)
	r.tells(node, r.listed(""), has(podspec.API, ""), has(podspec.File, "a"), reports("a", v1.PodRunning, 0))
	r.Forget()
	return r
}

// TestComeback: a pod that is wanted again while it stops ends first, and begins another life then. Its
// mirror is another one.
func TestComeback(t *testing.T) {
	r := runningNode(t)
	r.tells(has(podspec.File, ""), has(podspec.File, "a"))
	r.want("removed and wanted again", nil,
		"a: assign, look, status Running, stop in 30s: the pod was removed from its source")
	r.tells(ends("a", 0, 3))
	r.want("it has ended", nil, "status: a is Running ", "status: forget a", "images: forget a",
		"mirrors: [a/3], all true", "a: assign, look, first sandbox 3")
	r.tells(reports("a", v1.PodFailed, 0), ends("a", 0, 4))
	r.want("what its earlier life says comes too late", nil)
	r.tells(reports("a", v1.PodRunning, 3), ends("a", 3, 4))
	r.want("what this one says counts", nil, "status: a is Running ", "status: a is Running ")
}

// TestRemade: a pod whose manifest was removed and made again, of which nobody saw that it was missing, ends and begins
// another life. One that is stopped already does not end twice; others are not affected.
func TestRemade(t *testing.T) {
	r := runningNode(t)
	r.tells(podset.Remade{UIDs: []types.UID{"none", "a"}}, podset.Remade{UIDs: []types.UID{"a"}}, has(podspec.File, "a"))
	r.want("its manifest was made again", []string{"a:"},
		"a: assign, look, status Running, stop in 30s: the pod was removed from its source")
	r.tells(ends("a", 0, 3))
	r.want("it has ended", []string{"a:"}, "a: assign, look, first sandbox 3")
	r.reject["b"] = "OutOfcpu"
	r.tells(has(podspec.File, "a b"))
	r.in("another one is refused", "a Running, b Rejected")
	delete(r.reject, "b")
	r.Forget()
	r.tells(podset.Remade{UIDs: []types.UID{"b"}})
	r.want("its manifest was made again", []string{"b:"}, "b: assign")
}

// TestComebackWhileCollected: it is wanted again only when gc removes it.
func TestComebackWhileCollected(t *testing.T) {
	r := runningNode(t)
	r.tells(has(podspec.File, ""), ends("a", 0, 3))
	r.want("it is being collected", []string{"gc:"}, "gc: collect a")
	r.tells(has(podspec.File, "a"))
	r.want("and wanted again", nil)
	r.in("it waits for gc", "a Collecting")
	r.tells(podset.Collected{UID: "a"})
	r.want("nothing is left of it", []string{"a:"}, "a: assign, look, first sandbox 3")
}

// TestComebackNotWanted: it is removed again before it could begin another life.
func TestComebackNotWanted(t *testing.T) {
	r := runningNode(t)
	r.tells(has(podspec.File, ""), has(podspec.File, "a"))
	r.reject["a"] = "OutOfcpu"
	r.tells(ends("a", 0, 3))
	r.in("it is rejected in its other life", "a Rejected")
	r.Forget()
	r.tells(has(podspec.File, ""))
	r.want("its earlier life has left remains", nil, "mirrors: [], all true", "status: forget a", "gc: collect a")
	r.tells(podset.Collected{UID: "a"})
	r.in("it is forgotten", "")
}

// TestComebackOfTheAgent: the agent ends while a removed pod stops. The next one goes on with that stop, also
// if the manifest is back.
func TestComebackOfTheAgent(t *testing.T) {
	r := runningNode(t)
	r.tells(has(podspec.File, ""))
	disk := r.disk
	again := func(change func(r *rig)) *rig {
		next := newRig(t, 0, func(r *rig) { r.disk = disk }, change)
		next.tells(node, next.listed("a"), has(podspec.API, ""), has(podspec.File, "a"))
		return next
	}
	next := again(func(*rig) {})
	next.want("the manifest is back", []string{"a:"},
		"a: assign, 1 sandboxes, stop in 30s: the pod was removed from its source")
	next.tells(ends("a", 0, 1))
	next.want("it has ended", []string{"a:"}, "a: assign, look, first sandbox 1")
	check.Has(t, string(disk["stops"]), `"firstSandbox":1`, "its life is not written down")
	later := again(func(*rig) {})
	later.want("the agent after that knows its life", []string{"a:"}, "a: assign, 1 sandboxes, first sandbox 1")
}

// TestStopIsWrittenFirst: the actor of a removed pod is told to stop when that is in the checkpoint, or can't
// be written.
func TestStopIsWrittenFirst(t *testing.T) {
	const stop = "a: assign, look, status Running, stop in 30s: the pod was removed from its source"
	r := runningNode(t, func(r *rig) { r.saves.Silent = true })
	r.tells(has(podspec.File, ""))
	r.want("the disk is slow", []string{"a:"})
	r.tells(podset.Asked{Ask: pod.Ask{UID: "a"}})
	r.want("its actor restarts meanwhile", []string{"a:"}, "a: assign, look, status Running")
	r.answers()
	r.want("it has written", []string{"a:"}, stop)

	r = runningNode(t)
	r.diskErr = errors.New("no space left on device")
	r.tells(has(podspec.File, ""))
	r.want("the disk is full", []string{"a:"}, stop)
	r.diskErr = nil
	r.Advance(6 * time.Second)
	check.Has(t, string(r.disk["stops"]), `"a"`, "there is room again, and it was not written")
	r.want("it is told once", []string{"a:"})
}

// TestNoteRestart: that a container is stopped to be restarted is written down before its pod is answered. It
// is answered again if it asks again.
func TestNoteRestart(t *testing.T) {
	note := podset.NoteRestart{NoteRestart: pod.NoteRestart{
		UID: "a", Container: "app", Note: podlife.RestartNote{ID: "c1", Cause: podlife.ProbeFailed},
	}}
	r := runningNode(t, func(r *rig) { r.saves.Silent = true })
	r.answers()
	r.tells(note, note)
	r.want("the disk is slow", []string{"a:"})
	r.answers()
	r.want("it has written", []string{"a:"}, "a: noted app c1")
	r.tells(note)
	r.want("it is asked again", []string{"a:"}, "a: noted app c1")
	check.Has(t, string(r.disk["stops"]), `{"id":"c1","cause":"ProbeFailed"}`, "the checkpoint has")
}

// TestAbandoned: gc finds directories of a pod that nobody knows. No pod of that UID begins until they are
// removed.
func TestAbandoned(t *testing.T) {
	r := runningNode(t)
	r.tells(podset.Abandoned{UID: "a"}, podset.Abandoned{UID: "old"}, podset.Abandoned{UID: "old"})
	r.want("one is known, the other is not", nil, "gc: collect abandoned old")
	r.tells(has(podspec.File, "a old"))
	r.want("it is wanted", []string{"old:"})
	r.tells(podset.Collected{UID: "old"})
	r.want("they are removed", []string{"old:"}, "old: assign")
}

// TestStuck: a pod of which the runtime can't remove all is not taken for an orphan.
func TestStuck(t *testing.T) {
	r := runningNode(t)
	r.tells(has(podspec.File, ""), ends("a", 0, 1), podset.Collected{UID: "a", Stuck: true})
	r.Forget()
	r.tells(r.listed("a"))
	r.want("it is still listed", nil)
	const stop = "a: assign, 1 sandboxes, stop in 24h0m0s: the pod was removed from its source"
	r.tells(r.listed(""), r.listed("a"))
	r.want("it was gone, and is there again", nil, stop)
	r.tells(ends("a", 0, 1), podset.Collected{UID: "a", Stuck: true}, has(podspec.File, "a"), has(podspec.File, ""))
	r.tells(ends("a", 0, 1), podset.Collected{UID: "a"})
	r.Forget()
	one := r.listed("a").Runtime.Pods[0]
	r.tells(podset.Seen{Seen: pleg.Seen{Ref: one.Ref, View: one.Pod}})
	r.want("it began since, and was removed as a whole", nil, stop)
}

func TestRemadeFinished(t *testing.T) {
	r := runningNode(t)
	r.tells(ends("a", 0, 3))
	r.in("it has ended by itself", "a Finished")
	r.Forget()
	r.tells(podset.Remade{UIDs: []types.UID{"a"}}, has(podspec.File, "a"))
	r.want("its manifest was made again", []string{"gc:"}, "gc: collect a")
	r.tells(podset.Collected{UID: "a"})
	r.in("and it runs again", "a Running")
}
