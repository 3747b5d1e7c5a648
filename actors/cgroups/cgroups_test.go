package cgroups_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/cgroups"
)

const (
	setA      = "set kubepods/burstable/poda: shares 1024"
	burstable = "set kubepods/burstable: shares "
	best      = "set kubepods/besteffort: shares 2"
	// settling is how long a change of the classes waits for the next.
	settling = 250 * time.Millisecond
)

// TestMakeAndRemove: a pod's cgroup from its beginning to its end.
func TestMakeAndRemove(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", "1"))
	r.WantByListener("made", "cgroups: "+setA, "a: pending")
	r.calls.Answer(nil, setA)
	r.WantByListener("it stands", "a: up")
	r.actor.Tell(r.removes("a"))
	r.WantByListener("removed", "cgroups: remove a", "a: pending, going")
	r.calls.Answer(nil, "remove a")
	r.WantByListener("it is gone", "a: down, removed")
	r.actor.Tell(r.removes("a"))
	r.calls.Answer(nil, "remove a")
	r.WantByListener("asked again, it is made sure again", "cgroups: remove a", "a: pending, going", "a: down, removed")
	r.events.WantByListener("nothing to tell people of")
}

// TestUnknownClass: a pod of a QoS class that only a newer apiserver knows has the cgroup of one with its requests. It
// ends no actor, which all pods need.
func TestUnknownClass(t *testing.T) {
	r := newRig(t)
	m := r.asks("a", "1")
	m.Pod.Status.QOSClass = "Newer"
	r.actor.Tell(m)
	r.WantByListener("made", "cgroups: "+setA, "a: pending")
}

// TestTwice: while it is being made, the same request has it set once more, after the call under way.
func TestTwice(t *testing.T) {
	r := newRig(t)
	m := r.asks("a", "1")
	r.actor.Tell(m)
	r.actor.Tell(m)
	r.WantByListener("one call", "cgroups: "+setA, "a: pending", "a: pending")
	r.calls.Answer(nil, setA)
	r.WantByListener("another", "cgroups: "+setA, "a: pending")
	r.calls.Answer(nil, setA)
	r.WantByListener("it stands", "a: up")
	m.Make = false
	r.actor.Tell(m)
	r.WantByListener("who only tells of itself has nothing made", "a: up")
}

// TestKnown: a pod that only tells of itself counts for its class. Nobody looks at its cgroup.
func TestKnown(t *testing.T) {
	r := newRig(t)
	m := r.asks("a", "1")
	m.Make = false
	r.actor.Tell(m)
	r.WantByListener("known", "a: known")
	r.Advance(settling)
	r.calls.Answer(nil, burstable+"1024")
	r.calls.Answer(nil, best)
	r.WantByListener("counted", "cgroups: "+burstable+"1024", "cgroups: "+best)
}

// TestFailure is tried again after a wait that doubles, and people are told.
func TestFailure(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", "1"))
	r.calls.Answer(errNot, setA)
	r.WantByListener("failed", "cgroups: "+setA, "a: pending", "a: failed: device busy")
	r.events.WantByListener("people know", "a: FailedCreatePodContainer: unable to ensure pod container exists: device busy")
	r.Advance(settling)
	r.calls.Answer(nil, burstable+"1024")
	r.calls.Answer(nil, best)
	r.Forget()
	r.Advance(base - settling)
	r.calls.Answer(errNot, setA)
	r.WantByListener("again", "a: failed: device busy", "cgroups: "+setA, "a: failed: device busy")
	r.Advance(2*base - time.Millisecond)
	r.WantByListener("twice as long")
	r.Advance(time.Millisecond)
	r.calls.Answer(nil, setA)
	r.WantByListener("in the end", "a: failed: device busy", "cgroups: "+setA, "a: up")
}

// TestRemovalFails in the same way. A removal does not wait for the backoff of what was to be made.
func TestRemovalFails(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", "1"))
	r.calls.Answer(errNot, setA)
	r.Forget()
	r.events.Forget()
	r.actor.Tell(r.removes("a"))
	r.WantByListener("at once", "cgroups: remove a", "a: pending, going")
	r.calls.Answer(errNot, "remove a")
	r.WantByListener("failed", "a: failed, going: device busy")
	r.events.WantByListener("people know", "a: FailedKillPod: cannot remove the pod cgroup: device busy")
	r.Advance(base)
	r.calls.Answer(nil, "remove a")
	r.Forget()
	r.Advance(first - settled - base - time.Millisecond)
	r.WantByListener("and no more is tried")
}

// TestRemoveWhileMaking: a cgroup that is being made is removed once that is over, however it ended. It is not made
// again for a pod that is going.
func TestRemoveWhileMaking(t *testing.T) {
	for name, err := range map[string]error{"made": nil, "not made": errNot} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			m := r.asks("a", "1")
			r.actor.Tell(m)
			r.actor.Tell(r.removes("a"))
			r.actor.Tell(m)
			r.WantByListener("one call", "cgroups: "+setA, "a: pending", "a: pending, going", "a: pending, going")
			r.calls.Answer(err, setA)
			r.WantByListener("then removed", "cgroups: remove a", "a: pending, going")
			r.events.WantByListener("and no failure")
			r.calls.Answer(nil, "remove a")
			r.WantByListener("it is gone", "a: down, removed")
		})
	}
}

// TestDeadline: a call without an answer has failed, and a late answer counts for nothing.
func TestDeadline(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.removes("a"))
	r.Advance(deadline)
	r.Forget()
	r.WantByListener("no answer")
	r.calls.Answer(nil, "remove a")
	r.WantByListener("late")
	r.Advance(base)
	r.calls.Answer(nil, "remove a")
	r.WantByListener("asked again", "cgroups: remove a",
		"a: failed, going: RemovePodCgroup a: deadline exceeded: no answer within 2m0s", "a: down, removed")
	r.events.WantByListener("nobody knows which pod that is")
}

// TestNoName: a UID that can name no cgroup is a failure, and no call is made.
func TestNoName(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a:1", "1"))
	text := `SetPodCgroup a:1: invalid configuration: metadata.uid "a:1" cannot name a cgroup: ` +
		`only letters, digits and - can be in it`
	r.WantByListener("failed", "a:1: pending", "a:1: failed: "+text)
}

// TestStart: the cgroups of classes wait until all pods have come again.
func TestStart(t *testing.T) {
	r := bareRig(t)
	r.actor.Tell(r.asks("a", "1"))
	r.calls.Answer(nil, setA)
	r.Forget()
	r.Advance(settled - time.Millisecond)
	r.WantByListener("not yet")
	r.Advance(time.Millisecond)
	const top = "set kubepods: shares 4096, memory 1000"
	r.WantByListener("that of all pods first", "cgroups: "+top)
	r.calls.Answer(nil, top)
	r.calls.Answer(nil, burstable+"1024")
	r.calls.Answer(nil, best)
	r.WantByListener("then the classes", "cgroups: "+burstable+"1024", "cgroups: "+best)
}

// TestClasses: the cgroup of a class has what its pods ask for together. Many pods at once are one change, and pods
// that ask for nothing are none.
func TestClasses(t *testing.T) {
	r := newRig(t)
	for _, m := range []struct {
		uid types.UID
		cpu string
	}{{"a", "1"}, {"b", "500m"}, {"c", ""}} {
		ask := r.asks(m.uid, m.cpu)
		ask.Make = false
		r.actor.Tell(ask)
	}
	r.Advance(settling)
	r.WantByListener("one change", "cgroups: "+burstable+"1536", "a: known", "b: known", "c: known")
	r.actor.Tell(r.removes("b"))
	r.calls.Answer(nil, "remove b")
	r.Advance(settling)
	r.Forget()
	r.calls.Answer(nil, burstable+"1536")
	r.calls.Answer(nil, best)
	r.WantByListener("not while one is under way", "cgroups: "+best)
	r.Advance(settling)
	r.calls.Answer(nil, burstable+"1024")
	r.calls.Answer(nil, best)
	r.WantByListener("then", "cgroups: "+burstable+"1024", "cgroups: "+best)
	ask := r.asks("a", "2")
	ask.Make = false
	r.actor.Tell(ask)
	r.Advance(settling)
	r.WantByListener("a pod that asks for more", "a: known", "cgroups: "+burstable+"2048")
}

// TestClassesFail: they are tried again in the next sweep.
func TestClassesFail(t *testing.T) {
	r := bareRig(t)
	r.Advance(settled)
	r.calls.Answer(errNot, "set kubepods: shares 4096, memory 1000")
	r.calls.Answer(errNot, burstable+"2")
	r.calls.Answer(nil, best)
	if r.Logged("cannot set cgroup limits") != 2 {
		t.Errorf("the log has %s", r.Log.String())
	}
	r.Forget()
	r.until(first)
	r.calls.Answer(nil, "list")
	r.Advance(settling)
	r.calls.Answer(nil, "set kubepods: shares 4096, memory 1000")
	r.calls.Answer(nil, burstable+"2")
	r.calls.Answer(nil, best)
	r.WantByListener("again", "cgroups: list", "cgroups: set kubepods: shares 4096, memory 1000",
		"cgroups: "+burstable+"2", "cgroups: "+best)
	r.until(first + period)
	r.calls.Answer(nil, "list")
	r.Advance(settling)
	r.WantByListener("and no more", "cgroups: list")
}

// TestEnforced: the node tells once that its pods are kept to its limits, and once that they can't be.
func TestEnforced(t *testing.T) {
	r := bareRig(t, func(d *cgroups.Deps) { d.Settings.Enforce, d.Node = true, "n1" })
	const top = "set kubepods: shares 4096, memory 1000"
	for i, err := range []error{errNot, errNot, nil} {
		if i == 0 {
			r.Advance(settled)
		} else {
			r.until(first + time.Duration(i-1)*period)
			r.calls.Answer(nil, "list")
			r.Advance(settling)
		}
		r.calls.Answer(err, top)
		if i == 0 {
			r.calls.Answer(nil, burstable+"2")
			r.calls.Answer(nil, best)
		}
	}
	r.events.Want("events", "n1: FailedNodeAllocatableEnforcement: The limits of all pods together can't be set "+
		"(enforceNodeAllocatable): device busy. This is tried again in the next sweep.",
		"n1: NodeAllocatableEnforced: Updated Node Allocatable limit across pods")
}

// TestSweep removes the cgroups of pods that nobody knows, tried again in the next sweep if it fails. With none
// there is nothing to ask.
func TestSweep(t *testing.T) {
	r := newRig(t)
	r.cgroups = []types.UID{"left", "living"}
	r.living["living"] = true
	r.until(first)
	r.calls.Answer(nil, "list")
	r.WantByListener("the leftover", "cgroups: list", "pods: who lives?", "cgroups: remove left")
	r.calls.Answer(errNot, "remove left")
	if r.Logged("cannot remove a leftover pod cgroup") != 1 {
		t.Errorf("the log has %s", r.Log.String())
	}
	r.until(first + period)
	r.calls.Answer(nil, "list")
	r.calls.Answer(nil, "remove left")
	r.WantByListener("again", "cgroups: list", "pods: who lives?", "cgroups: remove left")
	r.cgroups = nil
	r.until(first + 2*period)
	r.calls.Answer(nil, "list")
	r.WantByListener("nothing to ask", "cgroups: list")
	r.until(first + 3*period)
	r.calls.Answer(errNot, "list")
	r.WantByListener("without a list there is nothing to do", "cgroups: list")
	if r.Logged("cannot list pod cgroups") != 1 {
		t.Errorf("the log has %s", r.Log.String())
	}
}

// TestSweepWithoutAnswer: what pods does not answer is asked again in the next sweep.
func TestSweepWithoutAnswer(t *testing.T) {
	r := newRig(t)
	r.cgroups, r.mute = []types.UID{"left"}, true
	r.until(first)
	r.calls.Answer(nil, "list")
	r.Advance(period - time.Millisecond)
	r.WantByListener("waits", "cgroups: list", "pods: who lives?")
	r.mute = false
	r.Advance(time.Millisecond)
	r.calls.Answer(nil, "list")
	r.WantByListener("again", "cgroups: list", "pods: who lives?", "cgroups: remove left")
}

// TestSweepDuringARemoval: a pod whose cgroup is being removed is told how that ends, also where pods knows it no more.
func TestSweepDuringARemoval(t *testing.T) {
	r := newRig(t)
	r.cgroups = []types.UID{"a"}
	r.actor.Tell(r.removes("a"))
	r.until(first)
	r.calls.Answer(nil, "list")
	r.WantByListener("removed once", "cgroups: remove a", "a: pending, going", "cgroups: list", "pods: who lives?")
	r.calls.Answer(nil, "remove a")
	r.WantByListener("it is gone", "a: down, removed")
}

// TestPodsForgot: a pod that pods does not know any more counts for nothing, and its cgroup is a leftover.
func TestPodsForgot(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", "1"))
	r.calls.Answer(nil, setA)
	r.Advance(settling)
	r.calls.Answer(nil, burstable+"1024")
	r.calls.Answer(nil, best)
	r.cgroups = []types.UID{"a"}
	r.Forget()
	r.until(first)
	r.calls.Answer(nil, "list")
	r.WantByListener("removed", "cgroups: list", "pods: who lives?", "cgroups: remove a")
	r.calls.Answer(nil, "remove a")
	r.Advance(settling)
	r.WantByListener("and not counted", "cgroups: "+burstable+"2")
}

// TestAskedSinceTheQuestion: pods may answer a sweep with what it knew before a pod came. What is asked for since the
// question is kept, as long as that answer counts.
func TestAskedSinceTheQuestion(t *testing.T) {
	for name, before := range map[string]bool{"a new pod": false, "one that asks again": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.cgroups, r.mute = []types.UID{"a", "left"}, true
			m := r.asks("a", "1")
			if before {
				r.actor.Tell(m)
				r.calls.Answer(nil, setA)
			}
			r.until(first)
			r.calls.Answer(nil, "list")
			r.actor.Tell(m)
			r.calls.Answer(nil, setA)
			r.Forget()
			r.reply(nil)
			r.WantByListener("kept", "cgroups: remove left")
			r.calls.Answer(nil, "remove left")
			m.Make = false
			r.actor.Tell(m)
			r.WantByListener("and it stands", "a: up")
			r.mute = false
			r.until(first + period)
			r.calls.Answer(nil, "list")
			r.Settle()
			if said := r.Lines(); said[len(said)-1] != "cgroups: remove a" {
				t.Errorf("the next sweep does not remove it: %q", said)
			}
		})
	}
}

// TestRestart: an incarnation that knows nothing asks to have everything repeated. What its predecessor made is
// set again, after the call under way, and the classes wait until all have come.
func TestRestart(t *testing.T) {
	r := newRig(t)
	m := r.asks("a", "1")
	r.actor.Tell(m)
	r.Settle()
	r.Forget()
	r.actor.Crash()
	r.actor.Tell(m)
	r.Advance(time.Second)
	r.WantByListener("restarted", "all: repeat")
	r.actor.Tell(m)
	r.WantByListener("one after the other", "a: pending")
	r.calls.Answer(nil, setA)
	r.calls.Answer(nil, setA)
	r.WantByListener("set again", "cgroups: "+setA, "a: up")
	r.Advance(settled)
	r.calls.Answer(nil, "set kubepods: shares 4096, memory 1000")
	r.calls.Answer(nil, burstable+"1024")
	r.calls.Answer(nil, best)
	r.WantByListener("the classes", "cgroups: set kubepods: shares 4096, memory 1000", "cgroups: "+burstable+"1024",
		"cgroups: "+best)
}

// TestOverflow: however much is lost, everything is asked for again once.
func TestOverflow(t *testing.T) {
	r := newRig(t)
	m := r.asks("a", "")
	m.Make = false
	flood := func() {
		for range 20 {
			r.actor.Tell(m)
		}
	}
	repeats := func(want int) {
		t.Helper()
		if n := r.Count("all: repeat"); n != want {
			t.Errorf("everything was asked for %d times, want %d", n, want)
		}
	}
	for range 3 {
		flood()
		r.Advance(10 * time.Millisecond)
	}
	repeats(0) // there is no room yet
	r.Advance(time.Second)
	repeats(1)
	flood()
	r.Advance(time.Second)
	repeats(2)
}
