package resources_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
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
	r.ref.Tell(r.asks("a", "1"))
	r.want("made", "cgroups: "+setA, "a: pending")
	r.answers(nil, setA)
	r.want("it stands", "a: up")
	r.ref.Tell(r.removes("a"))
	r.want("removed", "cgroups: remove a", "a: pending, going")
	r.answers(nil, "remove a")
	r.want("it is gone", "a: down, removed")
	r.ref.Tell(r.removes("a"))
	r.answers(nil, "remove a")
	r.want("asked again, it is made sure again", "cgroups: remove a", "a: pending, going", "a: down, removed")
	r.wantEvents("nothing to tell people of")
}

// TestTwice: while it is being made, the same request has it set once more, after the call under way.
func TestTwice(t *testing.T) {
	r := newRig(t)
	m := r.asks("a", "1")
	r.ref.Tell(m)
	r.ref.Tell(m)
	r.want("one call", "cgroups: "+setA, "a: pending", "a: pending")
	r.answers(nil, setA)
	r.want("another", "cgroups: "+setA, "a: pending")
	r.answers(nil, setA)
	r.want("it stands", "a: up")
	m.Make = false
	r.ref.Tell(m)
	r.want("who only tells of itself has nothing made", "a: up")
}

// TestKnown: a pod that only tells of itself counts for its class. Nobody looks at its cgroup.
func TestKnown(t *testing.T) {
	r := newRig(t)
	m := r.asks("a", "1")
	m.Make = false
	r.ref.Tell(m)
	r.want("known", "a: known")
	r.pass(settling)
	r.answers(nil, burstable+"1024")
	r.answers(nil, best)
	r.want("counted", "cgroups: "+burstable+"1024", "cgroups: "+best)
}

// TestFailure is tried again after a wait that doubles, and people are told.
func TestFailure(t *testing.T) {
	r := newRig(t)
	r.ref.Tell(r.asks("a", "1"))
	r.answers(errNot, setA)
	r.want("failed", "cgroups: "+setA, "a: pending", "a: failed: device busy")
	r.wantEvents("people know", "a: FailedCreatePodContainer: unable to ensure pod container exists: device busy")
	r.pass(settling)
	r.answers(nil, burstable+"1024")
	r.answers(nil, best)
	r.said = nil
	r.pass(base - settling)
	r.answers(errNot, setA)
	r.want("again", "a: failed: device busy", "cgroups: "+setA, "a: failed: device busy")
	r.pass(2*base - time.Millisecond)
	r.want("twice as long")
	r.pass(time.Millisecond)
	r.answers(nil, setA)
	r.want("in the end", "a: failed: device busy", "cgroups: "+setA, "a: up")
}

// TestRemovalFails in the same way. A removal does not wait for the backoff of what was to be made.
func TestRemovalFails(t *testing.T) {
	r := newRig(t)
	r.ref.Tell(r.asks("a", "1"))
	r.answers(errNot, setA)
	r.said, r.events = nil, nil
	r.ref.Tell(r.removes("a"))
	r.want("at once", "cgroups: remove a", "a: pending, going")
	r.answers(errNot, "remove a")
	r.want("failed", "a: failed, going: device busy")
	r.wantEvents("people know", "a: FailedKillPod: cannot remove the pod cgroup: device busy")
	r.pass(base)
	r.answers(nil, "remove a")
	r.said = nil
	r.pass(first - settled - base - time.Millisecond)
	r.want("and no more is tried")
}

// TestRemoveWhileMaking: a cgroup that is being made is removed once that is over, however it ended. It is not made
// again for a pod that is going.
func TestRemoveWhileMaking(t *testing.T) {
	for name, err := range map[string]error{"made": nil, "not made": errNot} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			m := r.asks("a", "1")
			r.ref.Tell(m)
			r.ref.Tell(r.removes("a"))
			r.ref.Tell(m)
			r.want("one call", "cgroups: "+setA, "a: pending", "a: pending, going", "a: pending, going")
			r.answers(err, setA)
			r.want("then removed", "cgroups: remove a", "a: pending, going")
			r.wantEvents("and no failure")
			r.answers(nil, "remove a")
			r.want("it is gone", "a: down, removed")
		})
	}
}

// TestDeadline: a call without an answer has failed, and a late answer counts for nothing.
func TestDeadline(t *testing.T) {
	r := newRig(t)
	r.ref.Tell(r.removes("a"))
	r.pass(deadline)
	r.said = nil
	r.want("no answer")
	r.answers(nil, "remove a")
	r.want("late")
	r.pass(base)
	r.answers(nil, "remove a")
	r.want("asked again", "cgroups: remove a",
		"a: failed, going: RemovePodCgroup a: deadline exceeded: no answer within 2m0s", "a: down, removed")
	r.wantEvents("nobody knows which pod that is")
}

// TestNoName: a UID that can name no cgroup is a failure, and no call is made.
func TestNoName(t *testing.T) {
	r := newRig(t)
	r.ref.Tell(r.asks("a:1", "1"))
	text := `SetPodCgroup a:1: invalid configuration: metadata.uid "a:1" cannot name a cgroup: ` +
		`only letters, digits and - can be in it`
	r.want("failed", "a:1: pending", "a:1: failed: "+text)
}

// TestStart: the cgroups of classes wait until all pods have come again.
func TestStart(t *testing.T) {
	r := bareRig(t)
	r.ref.Tell(r.asks("a", "1"))
	r.answers(nil, setA)
	r.said = nil
	r.pass(settled - time.Millisecond)
	r.want("not yet")
	r.pass(time.Millisecond)
	const top = "set kubepods: shares 4096, memory 1000"
	r.want("that of all pods first", "cgroups: "+top)
	r.answers(nil, top)
	r.answers(nil, burstable+"1024")
	r.answers(nil, best)
	r.want("then the classes", "cgroups: "+burstable+"1024", "cgroups: "+best)
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
		r.ref.Tell(ask)
	}
	r.pass(settling)
	r.want("one change", "cgroups: "+burstable+"1536", "a: known", "b: known", "c: known")
	r.ref.Tell(r.removes("b"))
	r.answers(nil, "remove b")
	r.pass(settling)
	r.said = nil
	r.answers(nil, burstable+"1536")
	r.answers(nil, best)
	r.want("not while one is under way", "cgroups: "+best)
	r.pass(settling)
	r.answers(nil, burstable+"1024")
	r.answers(nil, best)
	r.want("then", "cgroups: "+burstable+"1024", "cgroups: "+best)
	ask := r.asks("a", "2")
	ask.Make = false
	r.ref.Tell(ask)
	r.pass(settling)
	r.want("a pod that asks for more", "a: known", "cgroups: "+burstable+"2048")
}

// TestClassesFail: they are tried again in the next sweep.
func TestClassesFail(t *testing.T) {
	r := bareRig(t)
	r.pass(settled)
	r.answers(errNot, "set kubepods: shares 4096, memory 1000")
	r.answers(errNot, burstable+"2")
	r.answers(nil, best)
	if r.warned("cannot set cgroup limits") != 2 {
		t.Errorf("the log has %s", r.log.String())
	}
	r.said = nil
	r.until(first)
	r.answers(nil, "list")
	r.pass(settling)
	r.answers(nil, "set kubepods: shares 4096, memory 1000")
	r.answers(nil, burstable+"2")
	r.answers(nil, best)
	r.want("again", "cgroups: list", "cgroups: set kubepods: shares 4096, memory 1000",
		"cgroups: "+burstable+"2", "cgroups: "+best)
	r.until(first + period)
	r.answers(nil, "list")
	r.pass(settling)
	r.want("and no more", "cgroups: list")
}

// TestSweep removes the cgroups of pods that nobody knows, tried again in the next sweep if it fails. With none
// there is nothing to ask.
func TestSweep(t *testing.T) {
	r := newRig(t)
	r.cgroups = []types.UID{"left", "living"}
	r.living["living"] = true
	r.until(first)
	r.answers(nil, "list")
	r.want("the leftover", "cgroups: list", "pods: who lives?", "cgroups: remove left")
	r.answers(errNot, "remove left")
	if r.warned("cannot remove a leftover pod cgroup") != 1 {
		t.Errorf("the log has %s", r.log.String())
	}
	r.until(first + period)
	r.answers(nil, "list")
	r.answers(nil, "remove left")
	r.want("again", "cgroups: list", "pods: who lives?", "cgroups: remove left")
	r.cgroups = nil
	r.until(first + 2*period)
	r.answers(nil, "list")
	r.want("nothing to ask", "cgroups: list")
	r.until(first + 3*period)
	r.answers(errNot, "list")
	r.want("without a list there is nothing to do", "cgroups: list")
	if r.warned("cannot list pod cgroups") != 1 {
		t.Errorf("the log has %s", r.log.String())
	}
}

// TestSweepWithoutAnswer: what pods does not answer is asked again in the next sweep.
func TestSweepWithoutAnswer(t *testing.T) {
	r := newRig(t)
	r.cgroups, r.mute = []types.UID{"left"}, true
	r.until(first)
	r.answers(nil, "list")
	r.pass(period - time.Millisecond)
	r.want("waits", "cgroups: list", "pods: who lives?")
	r.mute = false
	r.pass(time.Millisecond)
	r.answers(nil, "list")
	r.want("again", "cgroups: list", "pods: who lives?", "cgroups: remove left")
}

// TestPodsForgot: a pod that pods does not know any more counts for nothing, and its cgroup is a leftover.
func TestPodsForgot(t *testing.T) {
	r := newRig(t)
	r.ref.Tell(r.asks("a", "1"))
	r.answers(nil, setA)
	r.pass(settling)
	r.answers(nil, burstable+"1024")
	r.answers(nil, best)
	r.cgroups = []types.UID{"a"}
	r.said = nil
	r.until(first)
	r.answers(nil, "list")
	r.want("removed", "cgroups: list", "pods: who lives?", "cgroups: remove a")
	r.answers(nil, "remove a")
	r.pass(settling)
	r.want("and not counted", "cgroups: "+burstable+"2")
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
				r.ref.Tell(m)
				r.answers(nil, setA)
			}
			r.until(first)
			r.answers(nil, "list")
			r.ref.Tell(m)
			r.answers(nil, setA)
			r.said = nil
			r.reply(nil)
			r.want("kept", "cgroups: remove left")
			r.answers(nil, "remove left")
			m.Make = false
			r.ref.Tell(m)
			r.want("and it stands", "a: up")
			r.mute = false
			r.until(first + period)
			r.answers(nil, "list")
			r.Settle()
			if r.said[len(r.said)-1] != "cgroups: remove a" {
				t.Errorf("the next sweep does not remove it: %q", r.said)
			}
		})
	}
}

// TestRestart: an incarnation that knows nothing asks to have everything repeated. What its predecessor made is
// set again, after the call under way, and the classes wait until all have come.
func TestRestart(t *testing.T) {
	r := newRig(t)
	m := r.asks("a", "1")
	r.ref.Tell(m)
	r.Settle()
	r.said = nil
	r.crash = true
	r.ref.Tell(m)
	r.pass(time.Second)
	r.want("restarted", "all: repeat")
	r.ref.Tell(m)
	r.want("one after the other", "a: pending")
	r.answers(nil, setA)
	r.answers(nil, setA)
	r.want("set again", "cgroups: "+setA, "a: up")
	r.pass(settled)
	r.answers(nil, "set kubepods: shares 4096, memory 1000")
	r.answers(nil, burstable+"1024")
	r.answers(nil, best)
	r.want("the classes", "cgroups: set kubepods: shares 4096, memory 1000", "cgroups: "+burstable+"1024",
		"cgroups: "+best)
}

// TestOverflow: however much is lost, everything is asked for again once.
func TestOverflow(t *testing.T) {
	r := newRig(t)
	m := r.asks("a", "")
	m.Make = false
	flood := func() {
		for range 20 {
			r.ref.Tell(m)
		}
	}
	repeats := func(want int) {
		t.Helper()
		n := 0
		for _, line := range r.said {
			if line == "all: repeat" {
				n++
			}
		}
		if n != want {
			t.Errorf("everything was asked for %d times, want %d", n, want)
		}
	}
	for range 3 {
		flood()
		r.pass(10 * time.Millisecond)
	}
	repeats(0) // there is no room yet
	r.pass(time.Second)
	repeats(1)
	flood()
	r.pass(time.Second)
	repeats(2)
}
