package podset_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/pleg"
	"github.com/troupe-dev/troupe/actors/pods"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/tests/check"
)

// restarts makes the actor crash and start again, and tells it what others send again then.
func (r *rig) restarts(all ...podset.Message) {
	r.actor.Crash()
	r.tells(podset.NodeRead{})
	r.Advance(time.Second)
	r.Forget()
	r.tells(all...)
}

// TestActorsAreFoundAgain: the next incarnation finds the actors of pods. They are not judged again, whatever runs of
// them. What no source wants any more ends, also if the runtime has nothing of it yet.
func TestActorsAreFoundAgain(t *testing.T) {
	r := newRig(t, 0)
	r.tells(node, r.listed("a"), has(podspec.File, "a"), has(podspec.API, "b gone"))
	r.reject["a"], r.reject["b"] = "OutOfcpu", "OutOfcpu"
	judged := r.checks
	r.restarts(node, r.listed("a"), has(podspec.File, "a"))
	r.want("one source was heard", []string{"a:", "b:", "gone:"}, "a: assign, look", "a: seen 1 sandboxes", "a: Repeat")
	r.tells(has(podspec.API, "b"))
	r.want("all were", []string{"a:", "b:", "gone:", "retain:"},
		"b: assign, look", "b: seen 0 sandboxes", "b: Repeat",
		"gone: assign, look, stop in 24h0m0s: the pod was removed from its source", "gone: seen 0 sandboxes", "gone: Repeat",
		"retain: 3 pods, 2 of a source")
	check.Count(t, r.checks-judged, 0, "%d pods were judged again")
	r.tells(reports("a", v1.PodRunning, 0), ends("gone", 0, 1), podset.Collected{UID: "gone"})
	r.in("they go on", "a Running, b Running")
	r.tells(podset.ListChildren{}, has(podspec.API, "b gone"))
	r.want("its name is free", []string{"gone:"}, "gone: assign, look")
}

// TestReportsBeforeItIsFound: what the actor of a pod reports to an incarnation that has not found it yet does not count.
// It is asked again.
func TestReportsBeforeItIsFound(t *testing.T) {
	down := reports("a", v1.PodFailed, 0)
	down.Down = true
	r := newRig(t, 0)
	r.tells(node, r.listed("a"), has(podspec.File, ""), has(podspec.API, "a"))
	r.deaf = true
	r.restarts(node, r.listed("a"), has(podspec.File, ""), has(podspec.API, "a"), down)
	r.want("it is not found yet", []string{"a:", "status: a"})
	r.deaf = false
	r.tells(podset.ListChildren{})
	r.want("it is found", []string{"a:", "status: a"}, "a: assign, look", "a: seen 1 sandboxes", "a: Repeat")
	r.tells(down)
	r.want("it reports", []string{"status: a"}, "status: a is Failed ")
}

// TestSeenBeforeItBegins: the actor of a pod begins with the newest that the runtime had of it.
func TestSeenBeforeItBegins(t *testing.T) {
	r := newRig(t, 0)
	r.deaf = true
	r.tells(node, r.listed("a"), has(podspec.File, "a"), has(podspec.API, ""))
	one := r.listed("a").Runtime.Pods[0]
	one.Sandboxes = append(one.Sandboxes, observed.Sandbox{State: observed.SandboxReady, CreatedAt: r.Now()})
	r.tells(podset.Seen{Seen: pleg.Seen{Ref: one.Ref, View: one.Pod, Listed: r.Now()}})
	r.deaf = false
	r.tells(podset.ListChildren{})
	r.want("its parent was asked again", []string{"a:"}, "a: assign, 2 sandboxes")
}

// TestAnswerIsLost: an actor that was never assigned is made once more, and begins with what the runtime has.
func TestAnswerIsLost(t *testing.T) {
	r := newRig(t, 0)
	r.dumb = true
	r.tells(node, r.listed("a"), has(podspec.File, "a"), has(podspec.API, ""))
	r.dumb = false
	r.tells(podset.ListChildren{}, podset.ListChildren{})
	r.want("its parent was asked again", []string{"a:"}, "a: assign, 1 sandboxes")
}

// TestParentRestarts: the actors of all pods are gone, and are made again. They inspect the runtime themselves. Nothing
// else is asked for again.
func TestParentRestarts(t *testing.T) {
	r := newRig(t, 0)
	r.tells(node, r.listed("a"), has(podspec.File, "a b ended"), has(podspec.API, ""), reports("a", v1.PodRunning, 0),
		ends("ended", 0, 1))
	r.Forget()
	r.parent.Crash()
	r.parent.Tell(pods.RuntimeBack{})
	r.Advance(time.Second)
	r.want("all begin again", nil, "a: assign, look, status Running", "b: assign, look", "ended: assign, look")
	r.in("what is known of them stays", "a Running, b Running, ended Finished")
}

// TestAnotherLife: the actor of an earlier life is not taken for that of the next.
func TestAnotherLife(t *testing.T) {
	r := runningNode(t)
	r.tells(has(podspec.File, ""), has(podspec.File, "a"), ends("a", 0, 3))
	r.want("it begins another life", []string{"a:"},
		"a: assign, look, status Running, stop in 30s: the pod was removed from its source", "a: assign, look, first sandbox 3")
	r.tells(podset.Begun{Child: pods.Child{Pod: observed.PodRef{UID: "a"}}})
	r.tells(podset.ListChildren{}, reports("a", v1.PodRunning, 3))
	r.want("an answer that is late, and a list", []string{"a:"})
	r.restarts(node, r.listed(""), has(podspec.API, ""), has(podspec.File, "a"))
	r.want("the next incarnation knows its life", []string{"a:"},
		"a: assign, look, first sandbox 3", "a: seen 0 sandboxes", "a: Repeat")
}

// TestBegunForNobody: an actor that an earlier incarnation asked for, and that is not wanted, ends.
func TestBegunForNobody(t *testing.T) {
	r := newRig(t, 0)
	r.tells(node, r.listed(""), has(podspec.File, ""), has(podspec.API, ""))
	r.parent.Tell(pods.Begin{Pod: made("old")})
	r.Settle()
	left := -1
	r.parent.Tell(pods.List{Reply: func(all []pods.Child) { left = len(all) }})
	r.Settle()
	check.Equal(t, left, 0, "actors")
}
