package claims_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/claims"
	decide "github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/linear"
)

const (
	prepareA   = "gpu prepare a"
	unprepareA = "gpu unprepare a"
	pendingP   = "p: pending"
)

// TestPrepareAndUnprepare: a claim from its first pod to its last.
func TestPrepareAndUnprepare(t *testing.T) {
	r := newRig(t)
	r.registers("gpu", false)
	r.allocate("a", []string{"gpu"}, "p", "q")
	r.tells(r.prepare("p", "a"))
	r.want("called", pendingP, "drivers: "+prepareA)
	r.wantFile("a [p] gpu:0")
	r.answers(nil, prepareA)
	r.want("ready", "p: ready gpu=a")
	r.wantFile("a [p] gpu:1")
	r.tells(r.prepare("q", "a"))
	r.want("prepared once for all", "q: pending", "q: ready gpu=a")
	r.wantFile("a [p q] gpu:1")
	r.tells(r.release("p"))
	r.want("q still uses it", "p: going", "p: released")
	r.wantFile("a [q] gpu:1")
	r.tells(r.release("q"))
	r.want("the last", "drivers: "+unprepareA, "q: going")
	r.wantFile("a [q] gpu:1")
	r.answers(nil, unprepareA)
	r.want("gone", "q: released")
	r.wantFile("")
	r.tells(r.release("q"), r.release("nobody"))
	r.want("nothing is held", "q: released", "nobody: released")
	r.events.WantByListener("nothing to tell people of")
}

// TestWaiting: a pod that can't use its claim yet says why, and goes on by itself.
func TestWaiting(t *testing.T) {
	r := newRig(t)
	const missing = `ResourceClaim "a" can't be read: get ResourceClaim ns/a: not found: not found`
	r.tells(r.prepare("p", "a"))
	r.want("not there", pendingP, pendingP+": "+missing)
	r.allocate("a", []string{"gpu", "net"})
	r.Advance(base)
	const reserved = `ResourceClaim "a" is not reserved for this pod: the scheduler has to reserve it`
	r.want("not reserved", pendingP+": "+reserved)
	r.allocate("a", []string{"gpu", "net"}, "p")
	r.Advance(2 * base)
	const driver = "DRA driver gpu is not registered on this node: check that its pod runs here"
	r.want("no driver", pendingP+": "+driver)
	r.wantFile("")
	r.registers("gpu", false)
	const other = "DRA driver net is not registered on this node: check that its pod runs here"
	r.want("another is missing", pendingP+": "+other)
	r.registers("net", false)
	r.want("all there", pendingP, "drivers: "+prepareA, "drivers: net prepare a")
	r.answers(nil, prepareA)
	r.want("not all are done")
	r.answers(nil, "net prepare a")
	r.want("ready", "p: ready gpu=a net=a")
	const failed = "p: FailedPrepareDynamicResources: Failed to prepare dynamic resources: "
	r.events.WantByListener("people know", failed+missing, failed+reserved, failed+driver, failed+other)
}

// TestOneAfterTheOther: the claims of a pod are read in the order of its spec, up to the first that it can't have, as a
// kubelet reads them. So a pod asks the apiserver for one at a time, and people are told of one.
func TestOneAfterTheOther(t *testing.T) {
	r := newRig(t)
	r.registers("gpu", false)
	r.allocate("a", []string{"gpu"}, "p")
	r.allocate("c", []string{"gpu"}, "p")
	r.tells(r.prepare("p", "a", "b", "c"))
	const missing = `ResourceClaim "b" can't be read: get ResourceClaim ns/b: not found: not found`
	r.want("the second is missing", pendingP, pendingP+": "+missing, "drivers: "+prepareA)
	r.answers(nil, prepareA)
	r.want("it still is")
	r.allocate("b", []string{"gpu"}, "p")
	r.Advance(base)
	r.want("all are there", pendingP, "drivers: gpu prepare b c")
	r.answers(nil, "gpu prepare b c")
	r.want("ready", "p: ready gpu=a gpu=b gpu=c")
}

// TestManyClaims: each claim of a pod costs the same however many it has, whether they are there or not.
func TestManyClaims(t *testing.T) {
	for name, there := range map[string]bool{"there": true, "missing": false} {
		t.Run(name, func(t *testing.T) {
			linear.Held(t, 250, func(n int) func() {
				r := newRig(t)
				r.registers("gpu", false)
				var names []string
				for i := range n {
					names = append(names, fmt.Sprint("c", i))
					if there {
						r.allocate(names[i], []string{"gpu"}, "p")
					}
				}
				ask := r.prepare("p", names...)
				return func() { r.tells(ask) }
			})
		})
	}
}

// TestFailure: what a driver refuses, or says nothing of, is tried again after a wait that doubles.
func TestFailure(t *testing.T) {
	r := newRig(t)
	r.registers("gpu", false)
	r.allocate("a", []string{"gpu"}, "p")
	r.refuse["a"] = "broken"
	r.tells(r.prepare("p", "a"))
	r.answers(nil, prepareA)
	const broken = `DRA driver gpu: NodePrepareResources: ResourceClaim "a": broken`
	r.want("refused", pendingP, "drivers: "+prepareA, pendingP+": "+broken)
	r.refuse["a"], r.mute["a"] = "", true
	r.Advance(base)
	r.answers(nil, prepareA)
	r.want("rubbish", "drivers: "+prepareA, pendingP+`: DRA driver gpu: NodePrepareResources: no answer for ResourceClaim "a"`)
	r.mute["a"] = false
	r.Advance(2*base - 100*time.Millisecond)
	r.want("the wait is longer")
	r.Advance(100 * time.Millisecond)
	r.answers(nil, prepareA)
	r.want("ready", "drivers: "+prepareA, pendingP, "p: ready gpu=a")
	if want := map[string]int{"all": 1, "gpu": 1}; !maps.Equal(r.inUse, want) {
		t.Errorf("in use are %v, want %v", r.inUse, want)
	}
	r.refuse["a"] = "busy"
	r.tells(r.release("p"))
	r.answers(nil, unprepareA)
	const busy = `DRA driver gpu: NodeUnprepareResources: ResourceClaim "a": busy`
	r.want("not released", "drivers: "+unprepareA, "p: going", "p: going: "+busy)
	r.refuse["a"] = ""
	r.Advance(base)
	r.answers(nil, unprepareA)
	r.want("released", "drivers: "+unprepareA, "p: going", "p: released")
	want := []string{
		"not prepared within 0s", "not prepared within 1s", "prepared within 3s", "not unprepared within 0s", "unprepared within 1s",
	}
	check.Same(t, r.counted, want, "counted was")
	if want := map[string]int{"all": 0}; !maps.Equal(r.inUse, want) {
		t.Errorf("in use are %v, want %v", r.inUse, want)
	}
}

// TestAHangingDriver holds up its own claims only, and after its deadline its claims are tried one by one.
func TestAHangingDriver(t *testing.T) {
	r := newRig(t)
	r.registers("gpu", false)
	r.registers("net", false)
	r.allocate("a", []string{"gpu"}, "p")
	r.allocate("b", []string{"gpu"}, "q")
	r.allocate("c", []string{"gpu"}, "q")
	r.allocate("n", []string{"net"}, "o")
	r.tells(r.prepare("p", "a"))
	r.tells(r.prepare("q", "b", "c"), r.prepare("o", "n"))
	r.answers(nil, "net prepare n")
	r.want("others go on", pendingP, "drivers: "+prepareA, "q: pending", "o: pending", "drivers: net prepare n", "o: ready net=n")
	r.Advance(claims.CallDeadline)
	const hangs = "DRA driver gpu: NodePrepareResources gpu: deadline exceeded: no answer within 45s"
	r.want("the next call has all that waits", "drivers: "+prepareA+": given up", pendingP+": "+hangs, "drivers: gpu prepare b c")
	r.answers(errors.New("cannot parse"), "gpu prepare b c")
	r.want("all has failed", "q: pending: DRA driver gpu: cannot parse")
	r.answers(nil, prepareA)
	r.want("an answer after the deadline does not count")
	r.Advance(base)
	r.answers(nil, prepareA)
	r.answers(nil, "gpu prepare b")
	r.answers(nil, "gpu prepare c")
	r.want("tried again one by one", "drivers: gpu prepare a", pendingP, "p: ready gpu=a", "drivers: gpu prepare b",
		"drivers: gpu prepare c", "q: pending", "q: ready gpu=b gpu=c")
}

// TestADriverThatGoes: a pod that ends waits for it, and one that never had it does not.
func TestADriverThatGoes(t *testing.T) {
	r := newRig(t)
	r.registers("gpu", false)
	r.allocate("a", []string{"gpu"}, "p")
	r.tells(r.prepare("p", "a"))
	r.answers(nil, prepareA)
	r.registers("gpu", true)
	r.Forget()
	r.tells(r.release("p"))
	const gone = "DRA driver gpu is not registered on this node: check that its pod runs here"
	r.want("it waits", "p: going: "+gone)
	r.allocate("b", []string{"gpu"}, "q")
	r.tells(r.prepare("q", "b"), r.release("q"))
	r.want("nothing to undo", "q: pending", "q: released")
	r.registers("gpu", false)
	r.answers(nil, unprepareA)
	r.want("back", "drivers: "+unprepareA, "p: going", "p: released")
	r.events.WantByListener("people know",
		"p: FailedUnprepareDynamicResources: Failed to unprepare dynamic resources: "+gone)
}

// TestTheLastPodEndsEarly: a call under way is undone after it.
func TestTheLastPodEndsEarly(t *testing.T) {
	r := newRig(t)
	r.registers("gpu", false)
	r.allocate("a", []string{"gpu"}, "p", "q")
	r.tells(r.prepare("p", "a"))
	r.tells(r.release("p"))
	r.tells(r.prepare("q", "a"))
	const again = `ResourceClaim "a" is still being unprepared after pods that used it before`
	r.want("it waits for the call", pendingP, "drivers: "+prepareA, "p: going", "q: pending", "q: pending: "+again)
	r.answers(nil, prepareA)
	r.want("undone", "drivers: "+unprepareA)
	r.answers(nil, unprepareA)
	r.want("and prepared for the next", "p: released", "q: pending", "drivers: "+prepareA)
	r.answers(nil, prepareA)
	r.want("ready", "q: ready gpu=a")
	r.wantFile("a [q] gpu:1")
}

// TestRestartOfTheAgent: a pod that runs keeps its devices without its driver, a new sandbox has the driver asked again,
// and what pods had that are gone is unprepared.
func TestRestartOfTheAgent(t *testing.T) {
	r := newRig(t, func(r *rig) { r.file = prepared("a", "gpu", "gone", "p") })
	m := r.prepare("p", "a")
	m.Make = false
	r.tells(m)
	r.want("no call", "p: known gpu=old")
	r.Advance(10 * time.Second)
	r.wantFile("a [p] gpu:1")
	r.allocate("a", []string{"gpu"}, "p")
	m.Make = true
	r.tells(m)
	r.want("the driver is needed", "p: pending: DRA driver gpu is not registered on this node: check that its pod runs here")
	r.registers("gpu", false)
	r.answers(nil, prepareA)
	r.want("asked again", "p: pending", "drivers: "+prepareA, "p: ready gpu=a")
	delete(r.living, "p")
	r.Advance(time.Minute)
	r.answers(nil, unprepareA)
	r.want("its actor never said so", "p: going", "drivers: "+unprepareA, "p: released")
	r.wantFile("")
}

// TestRestartOfTheActor: it reads what it wrote, and pods ask again.
func TestRestartOfTheActor(t *testing.T) {
	r := newRig(t)
	r.registers("gpu", false)
	r.allocate("a", []string{"gpu"}, "p")
	r.tells(r.prepare("p", "a"))
	r.answers(nil, prepareA)
	r.Forget()
	r.actor.Crash()
	r.tells(r.release("x"))
	r.Advance(time.Minute)
	r.want("others know", "all: repeat")
	r.registers("gpu", false)
	m := r.prepare("p", "a")
	m.Make = false
	r.tells(m)
	r.want("as it was", "p: known gpu=a")
	r.tells(r.release("p"))
	r.answers(nil, unprepareA)
	r.want("released", "drivers: "+unprepareA, "p: going", "p: released")
}

// TestDamagedCheckpoint: pods that are there have their claims prepared again.
func TestDamagedCheckpoint(t *testing.T) {
	r := newRig(t, func(r *rig) { r.file = []byte("{") })
	r.want("set aside", "checkpoint: set aside")
	r.registers("gpu", false)
	r.allocate("a", []string{"gpu"}, "p")
	m := r.prepare("p", "a")
	m.Make = false
	r.tells(m)
	r.answers(nil, prepareA)
	r.want("prepared", pendingP, "drivers: "+prepareA, "p: known gpu=a")
}

// TestAFullDisk: no driver is called before the checkpoint is written.
func TestAFullDisk(t *testing.T) {
	r := newRig(t)
	r.registers("gpu", false)
	r.allocate("a", []string{"gpu"}, "p")
	r.err = errDisk
	r.tells(r.prepare("p", "a"))
	r.want("no call", pendingP)
	r.err = nil
	r.Advance(5 * time.Second)
	r.want("called", "drivers: "+prepareA)
	if r.Logged("cannot write", "no space left") != 1 {
		t.Errorf("the log is %s", r.Log.String())
	}
}

// TestAnotherOfThatName: a claim that was deleted and made again waits until the old one is unprepared.
func TestAnotherOfThatName(t *testing.T) {
	r := newRig(t, func(r *rig) { r.file = prepared("a", "gpu", "old") })
	r.living["old"] = true
	r.registers("gpu", false)
	r.allocate("a", []string{"gpu"}, "p")
	r.objects["a"].UID = "uid-another"
	r.tells(r.prepare("p", "a"))
	const old = "old ResourceClaim with same name a and different UID uid-a still exists (previous pod force-deleted?!)"
	r.want("it waits", pendingP, pendingP+": "+old)
	r.tells(r.release("old"))
	r.answers(nil, unprepareA)
	r.want("free", "drivers: "+unprepareA, "old: going", "old: released", "p: pending", "drivers: "+prepareA)
	r.events.WantByListener("people know", "p: FailedPrepareDynamicResources: Failed to prepare dynamic resources: "+old)
}

// TestSlices: those of drivers that are gone are deleted, after a while.
func TestSlices(t *testing.T) {
	r := newRig(t, func(r *rig) { r.slices = []string{"old", "gpu", "net"} })
	r.registers("gpu", false)
	r.registers("net", false)
	r.Advance(claims.Grace - time.Second)
	r.registers("net", true)
	r.want("not yet")
	r.Advance(time.Second)
	r.want("one that did not come", "slices of old: delete")
	r.registers("net", false)
	r.registers("net", true)
	r.sliceErr = &port.Error{Kind: port.Unavailable, Detail: "no apiserver"}
	r.Advance(claims.Grace - 100*time.Millisecond)
	r.want("not yet: it was back in between")
	r.Advance(100 * time.Millisecond)
	r.sliceErr = nil
	r.want("gone", "slices of net: delete")
	r.Advance(base)
	r.want("tried again", "slices of net: delete")
	r.Advance(time.Hour)
	r.want("once")
}

// TestSlicesOfASilentDriver: one that registers and never answers is gone when it is first heard of.
func TestSlicesOfASilentDriver(t *testing.T) {
	r := newRig(t)
	r.Advance(time.Hour)
	for range 2 {
		r.told(port.DRADriver{Name: "gpu", Gone: true})
		r.soon()
	}
	r.Advance(claims.Grace - time.Second)
	r.want("not yet")
	r.Advance(time.Second)
	r.want("it did not answer", "slices of gpu: delete")
	r.Advance(time.Hour)
	r.want("once")
}

// TestSlicesCantBeListed: that is tried again.
func TestSlicesCantBeListed(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.slices, r.sliceErr = []string{"old"}, &port.Error{Kind: port.Forbidden, Detail: "no"}
	})
	r.Advance(claims.Grace)
	r.sliceErr = nil
	r.want("not listed")
	r.Advance(base)
	r.want("listed", "slices of old: delete")
}

// TestHealth: a pod is told how its devices are, for as long as a driver says so.
func TestHealth(t *testing.T) {
	r := newRig(t, func(r *rig) { r.healths = map[string]watch{} })
	r.registers("gpu", false)
	r.allocate("a", []string{"gpu"}, "p")
	r.tells(r.prepare("p", "a"))
	r.answers(nil, prepareA)
	const known = "p: ready gpu=a"
	r.want("not known", pendingP, "drivers: "+prepareA, known)
	r.reports("gpu", "a", v1.ResourceHealthStatusHealthy, "")
	r.want("healthy", known+", claim:a gpu=a Healthy ")
	r.reports("gpu", "other", v1.ResourceHealthStatusUnhealthy, "")
	r.want("another's")
	r.Advance(50 * time.Second)
	r.reports("gpu", "a", v1.ResourceHealthStatusUnhealthy, "too hot")
	r.want("unhealthy", known+", claim:a gpu=a Unhealthy too hot")
	r.Advance(time.Minute - time.Second)
	r.want("it still counts")
	r.Advance(time.Second)
	r.want("it does not count any more", known)
	r.reports("gpu", "a", v1.ResourceHealthStatusHealthy, "")
	r.want("healthy", known+", claim:a gpu=a Healthy ")
	old := r.healths["gpu"]
	old.done(&port.Error{Kind: port.Unavailable})
	r.soon()
	r.want("nobody says so any more", known)
	r.Advance(base)
	old.event([]decide.Report{{Pool: "n", Device: "a", Health: v1.ResourceHealthStatusUnhealthy, For: time.Minute}})
	r.reports("gpu", "a", v1.ResourceHealthStatusHealthy, "")
	r.want("watched again; the old watch does not count", known+", claim:a gpu=a Healthy ")
	r.registers("gpu", true)
	r.want("the driver is gone", known)
	r.registers("gpu", false)
	r.healths["gpu"].done(&port.Error{Kind: port.Unsupported})
	delete(r.healths, "gpu")
	r.Advance(time.Hour)
	if _, again := r.healths["gpu"]; again {
		t.Error("a driver that can't say so is asked again")
	}
}

// TestNoSlices: an apiserver that does not have the API is not asked again.
func TestNoSlices(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.slices, r.sliceErr = []string{"old"}, &port.Error{Kind: port.Unsupported, Detail: "no such resource"}
	})
	r.registers("gpu", false)
	r.registers("gpu", true)
	r.Advance(claims.Grace)
	r.want("tried once", "slices of gpu: delete")
	r.sliceErr = nil
	r.Advance(time.Hour)
	r.want("not again")
	if n := strings.Count(r.Log.String(), "ResourceSlices"); n != 0 {
		t.Errorf("the log is %s", r.Log.String())
	}
}

// TestTheWatchEnds: it is opened again.
func TestTheWatchEnds(t *testing.T) {
	r := newRig(t)
	told := r.told
	r.ended(errors.New("no inotify"))
	r.Advance(base)
	if r.told == nil || r.Logged("cannot watch registrations of DRA drivers") != 1 {
		t.Errorf("the log is %s", r.Log.String())
	}
	told(port.DRADriver{Name: "late"})
	r.allocate("a", []string{"late"}, "p")
	r.tells(r.prepare("p", "a"))
	r.want("the old one does not count", pendingP,
		pendingP+": DRA driver late is not registered on this node: check that its pod runs here")
}
