package podset_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pleg"
	"github.com/troupe-dev/troupe/actors/pods"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestFirstList: no pod begins before the runtime was listed and the checkpoints were read, whatever comes
// first. Nothing is stopped before each source was heard.
func TestFirstList(t *testing.T) {
	for name, steps := range map[string][]func(r *rig){
		"the list comes last": {
			func(r *rig) { r.tells(node, has(podspec.File, "a b")) }, (*rig).answers,
			func(r *rig) { r.tells(r.listed("b")) },
		},
		"a source comes last": {
			func(r *rig) { r.tells(node, r.listed("b")) }, (*rig).answers,
			func(r *rig) { r.tells(has(podspec.File, "a b")) },
		},
		"the checkpoints come last": {
			func(r *rig) { r.tells(node, r.listed("b"), has(podspec.File, "a b")) }, (*rig).answersOne, (*rig).answersOne,
		},
	} {
		r := newRig(t, 0, func(r *rig) { r.loads.Silent = true })
		for i, step := range steps {
			if i > 0 {
				r.want(name, []string{"a:", "b:"})
			}
			step(r)
		}
		r.want(name, []string{"a:", "b:"}, "b: assign, 1 sandboxes", "a: assign")
	}
}

// TestUnknownPod: what runs and no source wants is stopped, once each source was heard.
func TestUnknownPod(t *testing.T) {
	r := newRig(t, 0)
	r.tells(node, r.listed("a old web#1"), has(podspec.File, "a web#2"))
	// of two pods of one name only one may run: that does not wait for the apiserver
	r.want("the apiserver was not heard", []string{"a:", "old:", "1:", "2:"},
		"1: assign, 1 sandboxes, stop in 24h0m0s: the pod was removed from its source", "a: assign, 1 sandboxes")
	r.tells(has(podspec.API, ""))
	r.want("all were heard", []string{"a:", "old:", "1:", "2:"},
		"old: assign, 1 sandboxes, stop in 24h0m0s: the pod was removed from its source")
	r.tells(ends("1", 0, 1))
	r.want("it has ended", []string{"gc:", "2:"}, "gc: collect 1", "2: assign")
	r.tells(podset.Collected{UID: "1"})
	r.want("nothing is left of it", []string{"images:"}, "images: forget 1")
}

// TestLifeOfAPod is a static pod from its manifest to its end.
func TestLifeOfAPod(t *testing.T) {
	r := newRig(t, 0)
	r.tells(node, r.listed(""), has(podspec.API, ""), has(podspec.File, "a"))
	r.want("it comes", nil, "a: assign", "mirrors: [a/0], all true")
	r.tells(reports("a", v1.PodRunning, 0))
	r.want("it runs", nil, "status: a is Running ")
	r.tells(has(podspec.File, ""))
	r.want("its manifest is gone", nil,
		"a: assign, look, status Running, stop in 30s: the pod was removed from its source")
	check.Has(t, string(r.disk["stops"]), `"a"`, "the stop is not written down")
	r.tells(ends("a", 0, 1))
	r.want("it has ended", nil, "status: a is Running ", "gc: collect a", "mirrors: [], all true")
	r.in("it is collected", "a Collecting")
	r.tells(podset.Collected{UID: "a"})
	r.want("nothing is left", nil, "images: forget a", "status: forget a")
	r.in("it is forgotten", "")
	if got := string(r.disk["stops"]); !strings.HasSuffix(got, `"content":{"pods":{}}}`) {
		t.Errorf("the checkpoint remembers %s", got)
	}
}

// TestDeletion is a pod of the apiserver that is deleted, and is gone before it has ended.
func TestDeletion(t *testing.T) {
	r := newRig(t, 0)
	r.tells(node, r.listed(""), has(podspec.File, ""), has(podspec.API, "a"), reports("a", v1.PodRunning, 0))
	r.Forget()
	deleted := made("a")
	deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = &metav1.Time{Time: r.Now()}, new(int64(20))
	r.tells(wants(podspec.API, deleted))
	r.want("deleted", []string{"a:"}, "a: assign, look, status Running, stop in 20s: the pod was deleted")
	r.Advance(5 * time.Second)
	sooner := deleted.DeepCopy()
	sooner.DeletionGracePeriodSeconds = new(int64(10))
	r.tells(wants(podspec.API, sooner))
	r.want("with a shorter grace period, which counts from the deletion", []string{"a:"},
		"a: assign, look, status Running, stop in 10s: the pod was deleted")
	r.tells(has(podspec.API, ""))
	r.want("gone: it has the rest of its grace period", []string{"a:"})
	r.in("it is being stopped", "a Running")
}

// TestGone: a pod that the apiserver has no more is stopped by force if that was said before, and otherwise, as after a
// restore from a backup, with its grace period. Its resources are other pods' already.
func TestGone(t *testing.T) {
	r := newRig(t, 0)
	r.tells(node, r.listed(""), has(podspec.File, ""), has(podspec.API, "forced lost"))
	r.Forget()
	forced := made("forced")
	forced.DeletionTimestamp, forced.DeletionGracePeriodSeconds = &metav1.Time{Time: r.Now()}, new(int64(0))
	r.tells(wants(podspec.API, forced, made("lost")), has(podspec.API, "lost"), has(podspec.API, "next"))
	r.want("gone", []string{"forced:", "lost:", "next:"}, "forced: assign, look, stop in 0s: the pod was deleted",
		"lost: assign, look, stop in 30s: the pod was removed from its source", "next: assign")
	check.Equal(t, fmt.Sprint(r.beside["next"]), "[]", "the next pod was admitted beside")
}

// TestForced: that a pod was deleted by force is not lost with a Wanted in whose place a newer one came.
func TestForced(t *testing.T) {
	for name, told := range map[string][]podset.Message{
		"before it is gone": {podset.Forced{UID: "a"}, has(podspec.API, "")},
		"and after that":    {has(podspec.API, ""), podset.Forced{UID: "a"}, podset.Forced{UID: "a"}, podset.Forced{UID: "nobody"}},
	} {
		r := newRig(t, 0)
		r.tells(node, r.listed(""), has(podspec.File, ""), has(podspec.API, "a"))
		r.Forget()
		r.tells(told...)
		want := []string{"a: assign, look, stop in 0s: the pod was deleted by force"}
		if len(told) > 2 {
			first := "a: assign, look, stop in 30s: the pod was removed from its source"
			want = []string{first, "a: assign, look, stop in 0s: the pod was removed from its source"}
		}
		r.want(name, []string{"a:"}, want...)
	}
}

// TestSuccessorWaits: a pod that is gone from the apiserver, or was before the agent began, has no grace period left once
// another of its name waits for its end.
func TestSuccessorWaits(t *testing.T) {
	r := newRig(t, 0)
	list := r.listed("db#0")
	list.Runtime.Pods[0].Sandboxes[0].Source = "api"
	r.tells(node, list, has(podspec.File, ""), has(podspec.API, "web#1"), has(podspec.API, ""))
	r.Forget()
	r.Advance(4 * time.Second)
	r.tells(has(podspec.API, "web#2 db#3"))
	r.want("its successor is there", []string{"0:", "1:", "2:", "3:"},
		"0: assign, look, stop in 0s: the pod was removed from its source",
		"1: assign, look, stop in 0s: the pod was removed from its source")
	r.tells(has(podspec.API, "web#2 db#3"))
	r.want("once", []string{"0:", "1:", "2:", "3:"})
	r.tells(ends("1", 0, 1))
	r.want("it has ended", []string{"2:"}, "2: assign")
}

// TestFinalStatus: the last status of a pod that is being deleted is marked, so that status may delete it.
func TestFinalStatus(t *testing.T) {
	r := newRig(t, 0)
	deleted := made("a")
	r.tells(node, r.listed(""), has(podspec.File, ""), wants(podspec.API, deleted), reports("a", v1.PodRunning, 0))
	deleted = deleted.DeepCopy()
	deleted.DeletionTimestamp = &metav1.Time{Time: r.Now()}
	r.tells(wants(podspec.API, deleted), reports("a", v1.PodSucceeded, 0))
	r.Forget()
	r.tells(ends("a", 0, 1))
	r.want("it has ended", []string{"status:"}, "status: a is Succeeded  for the last time")
}

// TestAdmissionOrder: pods that run already begin before others, which are judged beside them, and the successor of a
// pod waits for its end.
func TestAdmissionOrder(t *testing.T) {
	r := newRig(t, 0)
	r.tells(node, r.listed("z y"), has(podspec.File, ""), has(podspec.API, "a y z"))
	r.want("at agent start", []string{"a:", "y:", "z:"}, "z: assign, 1 sandboxes", "y: assign, 1 sandboxes", "a: assign")
	if got := fmt.Sprint(r.beside["a"]); r.checks != 1 || got != "[z y]" {
		t.Errorf("%d were judged, a beside %s, want a alone, beside [z y]", r.checks, got)
	}
	r.tells(has(podspec.API, "a y z a#next"))
	r.want("one of the same name", []string{"next:"})
	r.in("it waits", "z Running, y Running, a Running, next Waiting")
	r.tells(has(podspec.API, "y z a#next"), ends("a", 0, 1))
	r.want("its predecessor is not collected yet", []string{"next:", "gc:"}, "gc: collect a", "next: assign")
}

// TestUnknownNode: a pod of the apiserver that runs is looked after before this node's object is known, and never
// asked for admission. Another one waits.
func TestUnknownNode(t *testing.T) {
	r := newRig(t, 0)
	r.reject["runs"], r.reject["new"] = "NodeAffinity", "NodeAffinity"
	r.tells(r.listed("runs"), has(podspec.File, "static"), has(podspec.API, "runs new"))
	pod := []string{"runs:", "new:", "static:"}
	r.want("the node is not known", pod, "runs: assign, 1 sandboxes", "static: assign")
	r.tells(node)
	r.want("it is", pod)
	r.in("the new one is judged", "static Running, runs Running, new Rejected")
}

// TestRejection: a rejected pod has no actor, its status says why, and another manifest is another pod.
func TestRejection(t *testing.T) {
	r := newRig(t, 0)
	r.reject["bad"] = "OutOfcpu"
	r.tells(node, r.listed("runs"), has(podspec.API, "runs"), has(podspec.File, "bad"))
	r.want("it is rejected", []string{"bad:", "event:", "status:"}, "event: bad OutOfcpu", "status: bad is Failed OutOfcpu")
	r.in("it stays known", "runs Running, bad Rejected")
	delete(r.reject, "bad")
	r.tells(has(podspec.File, "bad"))
	r.want("another manifest", []string{"bad:"}, "bad: assign")
	r.reject["worse"] = "OutOfcpu"
	r.tells(has(podspec.File, "bad worse"), has(podspec.File, "bad"))
	r.want("a rejected pod is removed", []string{"gc:", "images:", "status: forget"}, "status: forget worse")
	r.in("it is forgotten", "runs Running, bad Running")
}

// TestRunsAndDoesNotFit: pods that run are not judged again, whatever the node has become, and count as beside others.
func TestRunsAndDoesNotFit(t *testing.T) {
	r := newRig(t, 0)
	r.room, r.reject["a"] = 1, "OutOfcpu"
	r.tells(node, r.listed("a b static"), has(podspec.File, "static"), has(podspec.API, "a b new"))
	r.want("at agent start", []string{"a:", "b:", "static:", "event:"}, "a: assign, 1 sandboxes", "b: assign, 1 sandboxes",
		"static: assign, 1 sandboxes", "event: new OutOfpods")
	check.Equal(t, fmt.Sprint(r.beside["new"]), "[static a b]", "the new pod was judged beside")
}

// TestJudgedAfterAReboot: a pod without a ready sandbox is judged as a new one. If it may not run, its actor removes
// what is left of it.
func TestJudgedAfterAReboot(t *testing.T) {
	r := newRig(t, 0)
	r.reject["a"] = "NodeAffinity"
	list := r.listed("a")
	list.Runtime.Pods[0].Sandboxes[0].State = observed.SandboxNotReady
	r.tells(node, list, has(podspec.API, "a"), has(podspec.File, ""))
	r.want("at agent start", []string{"a:", "event:"}, "a: assign, 1 sandboxes, stop in 30s: NodeAffinity (failed)",
		"event: a NodeAffinity")
}

// TestRejectedAfterItBegan: an earlier agent had begun a pod, of which the runtime has nothing. If it is rejected now, an
// actor gives up what is on the host, once gc has found it.
func TestRejectedAfterItBegan(t *testing.T) {
	r := newRig(t, 0)
	r.reject["a"] = "Evicted"
	r.tells(node, r.listed(""), has(podspec.API, "a"), has(podspec.File, ""))
	r.want("at agent start", []string{"a:", "event:"}, "event: a Evicted")
	r.tells(podset.Abandoned{UID: "a"}, podset.Abandoned{UID: "a"})
	r.want("gc finds its directories", []string{"a:"}, "a: assign, stop in 30s: Evicted (failed)")
}

// TestBehind: a pod begins when nothing runs of the one before it, which the apiserver has no more. People are told of one
// that waits for long, again and again.
func TestBehind(t *testing.T) {
	r := newRig(t, 0)
	r.tells(node, r.listed("web#old"), has(podspec.File, ""), has(podspec.API, "web#old"), has(podspec.API, "web#new"))
	r.Advance(50 * time.Second)
	r.want("for a while", []string{"new:", "event:"})
	r.Advance(15 * time.Second)
	r.want("a minute", []string{"new:", "event:"}, "event: new NameInUse")
	stuck := reports("old", v1.PodRunning, 0)
	stuck.Trouble = "it is stuck"
	r.tells(stuck)
	r.actor.Tell(podset.Query{Reply: func(i podset.Inventory) {
		check.Equal(t, i.Pods[0].Behind+i.Pods[1].Behind,
			"waiting for the end of another pod of this name, with the UID old: it is stuck", "it")
	}})
	r.Advance(5 * time.Minute)
	r.want("later", []string{"new:", "event:"}, "event: new NameInUse")
	down := reports("old", v1.PodFailed, 0)
	down.Down = true
	r.tells(down)
	r.want("nothing of it runs", []string{"new:", "event:"}, "new: assign")
	r.Advance(time.Hour)
	r.want("it is told no more", []string{"new:", "event:"})
	r.in("the old one is not gone", "old Running, new Running")
}

// TestBehindForEver: a pod of the apiserver that the runtime fails to stop keeps its name for some minutes.
func TestBehindForEver(t *testing.T) {
	for name, c := range map[string]struct {
		resists bool
		source  podspec.Origin
		begins  bool
	}{
		"it can't be stopped": {true, podspec.API, true}, "it may still end": {false, podspec.API, false},
		"a static pod": {true, podspec.File, false},
	} {
		r := newRig(t, 0)
		other := podspec.File
		if c.source == other {
			other = podspec.API
		}
		r.tells(node, r.listed("web#old"), has(c.source, "web#old"), has(other, ""))
		stuck := reports("old", v1.PodRunning, 0)
		stuck.Resists = c.resists
		r.tells(has(c.source, "web#new"), stuck)
		r.Advance(2 * time.Minute)
		r.want(name, []string{"new:", "event:"}, "event: new NameInUse")
		r.Advance(5 * time.Minute)
		want := []string{"event: new NameInUse"}
		if c.begins {
			want = append(want, "new: assign")
		}
		r.want(name, []string{"new:", "event:"}, want...)
	}
}

// TestPodsActorRestarts: the actor of a pod asks for its assignment, and is told the last status. It has to
// look at the runtime itself.
func TestPodsActorRestarts(t *testing.T) {
	r := newRig(t, 0)
	r.tells(node, r.listed("a"), has(podspec.File, "a b"), has(podspec.API, ""), reports("a", v1.PodRunning, 0))
	r.Forget()
	r.crash["a"] = true
	r.parent.Tell(pods.RuntimeBack{})
	r.Advance(time.Second)
	r.want("one crashes", nil, "b: RuntimeBack", "a: assign, look, status Running", "event: a ActorCrashed")
	if got := r.crashOf("a"); got == nil || got.Reason != actortest.Ordered {
		t.Errorf("the crash is not known: %v", got)
	}
	r.tells(reports("a", v1.PodRunning, 0))
	if got := r.crashOf("a"); got != nil {
		t.Errorf("it reports again, and the crash is still known: %v", got)
	}
}

func (r *rig) crashOf(uid types.UID) (c *kernel.CrashReport) {
	r.actor.Tell(podset.Query{Reply: func(i podset.Inventory) {
		for _, p := range i.Pods {
			if p.Pod.UID == uid {
				c = p.Crash
			}
		}
	}})
	r.Settle()
	return c
}

// TestMirrors: static pods have mirrors.
func TestMirrors(t *testing.T) {
	r := newRig(t, 0)
	r.tells(node, r.listed(""), has(podspec.File, "a b"), has(podspec.API, "c"))
	mirrors := -1
	r.actor.Tell(podset.Query{Reply: func(i podset.Inventory) { mirrors = i.Mirrors }})
	r.Settle()
	check.Equal(t, mirrors, 2, "mirrors")
}

// TestQueryOfAName: who asks for the pods of a name gets no others.
func TestQueryOfAName(t *testing.T) {
	r := newRig(t, 0)
	r.tells(node, r.listed("web#old"), has(podspec.File, "a"), has(podspec.API, "b web#new"))
	var got []types.UID
	ask := func(namespace, name string) {
		got = nil
		r.actor.Tell(podset.Query{Namespace: namespace, Name: name, Reply: func(i podset.Inventory) {
			for _, f := range i.Pods {
				got = append(got, f.Pod.UID)
			}
		}})
		r.Settle()
	}
	ask("default", "web")
	check.Same(t, got, []types.UID{"new", "old"}, "the pods of the name")
	ask("other", "web")
	check.Same(t, got, nil, "those of another namespace")
}

// TestRestart: the next incarnation asks for everything again. No pod begins before gc has said which pods
// it is removing: what it removes may not begin.
func TestRestart(t *testing.T) {
	r := newRig(t, 0)
	r.tells(node, r.listed("a b"), has(podspec.File, "a b"), has(podspec.API, ""))
	r.Forget()
	r.mute = true
	r.actor.Crash()
	r.tells(podset.NodeRead{})
	r.Advance(20 * time.Millisecond)
	r.want("it restarts", nil, "all: repeat", "gc: what is being collected?")
	r.tells(node, r.listed("a b"), has(podspec.File, "a b"), has(podspec.API, ""))
	r.want("gc does not answer", []string{"a:", "b:"})
	r.Forget()
	r.Advance(time.Second)
	r.want("it is asked again", []string{"gc:"}, "gc: what is being collected?")
	r.tells(podset.BeingCollected{Pods: []observed.PodRef{{UID: "b", Namespace: "default", Name: "b"}}})
	r.want("b is being removed", []string{"a:", "b:"}, "a: assign, look", "a: seen 1 sandboxes", "a: Repeat")
	r.tells(podset.BeingCollected{})
	r.in("only the first answer counts", "b Collecting, a Running")
	r.tells(podset.Collected{UID: "b"})
	r.want("b is removed, and still wanted: it is a new pod", []string{"b:"}, "b: assign, look")
}

// TestRepeat: pods are asked a few at a time to say again what an actor has forgotten.
func TestRepeat(t *testing.T) {
	r := newRig(t, 0)
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("p%02d", i))
	}
	all := strings.Join(names, " ")
	r.tells(node, r.listed(""), has(podspec.API, ""), has(podspec.File, all))
	r.tells(has(podspec.File, all+" gone"), has(podspec.File, all), ends("gone", 0, 1))
	r.in("one is being collected", strings.ReplaceAll(all, " ", " Running, ")+" Running, gone Collecting")
	r.Forget()
	asked := func(from, to int) (out []string) {
		for _, n := range names[from:to] {
			out = append(out, n+": AskAgain")
		}
		return out
	}
	r.tells(podset.AskAgain{}, podset.AskAgain{})
	r.want("the first sixteen at once", nil, asked(0, 16)...)
	r.Advance(50 * time.Millisecond)
	r.want("the rest later", nil, append(asked(16, 20), "gone: AskAgain", "gc: collect gone")...)
	r.Advance(50 * time.Millisecond)
	r.want("once more for the second question", nil, asked(0, 16)...)
	r.Advance(50 * time.Millisecond)
	r.Forget()
	r.Advance(time.Second)
	r.want("then no more", nil)
}

// TestOverflow: messages were dropped. All others are asked once to repeat, and so are the pods.
func TestOverflow(t *testing.T) {
	r := newRig(t, 8)
	r.tells(node, r.listed(""), has(podspec.API, ""), has(podspec.File, "a"))
	r.Forget()
	for range 3 {
		for range 20 {
			r.actor.Tell(podset.NodeRead{})
		}
		r.Advance(time.Millisecond)
	}
	r.Advance(46 * time.Millisecond)
	r.want("within 50 ms", []string{"all:", "a: A", "a: Rep"})
	r.Advance(10 * time.Millisecond)
	r.want("after it", []string{"all:", "a: A", "a: Rep"}, "all: repeat", "a: AskAgain", "a: Repeat")
	r.Advance(time.Second)
	r.want("once", nil)
	if r.System.Dropped() == 0 {
		t.Error("nothing was dropped")
	}
}

// TestRelay: what pleg sees goes to the pods that it is about.
func TestRelay(t *testing.T) {
	r := newRig(t, 0)
	r.tells(node, r.listed("a"), has(podspec.API, ""), has(podspec.File, "a b"))
	r.Forget()
	r.tells(r.listed("a"))
	r.want("a list: b has nothing", nil, "a: seen 1 sandboxes", "b: seen 0 sandboxes")
	one := r.listed("b").Runtime.Pods[0]
	r.tells(podset.Seen{Seen: pleg.Seen{Ref: one.Ref, View: one.Pod}})
	r.want("a change", nil, "b: seen 1 sandboxes")
	one = r.listed("orphan").Runtime.Pods[0]
	r.tells(podset.Seen{Seen: pleg.Seen{Ref: one.Ref, View: one.Pod}})
	r.want("of a pod that nobody knows", nil,
		"orphan: assign, 1 sandboxes, stop in 24h0m0s: the pod was removed from its source")
}

// TestLogsOfAShortPod: log collectors look for new files once in a minute. A pod that had ended before it was deleted is
// collected later, and its successor does not wait for that.
func TestLogsOfAShortPod(t *testing.T) {
	r := newRig(t, 0)
	r.tells(node, r.listed(""), has(podspec.File, ""), has(podspec.API, "job stopped"))
	deleted := made("stopped")
	deleted.DeletionTimestamp = &metav1.Time{Time: r.Now()}
	r.tells(ends("job", 0, 1), wants(podspec.API, made("job"), deleted), ends("stopped", 0, 1))
	r.Forget()
	r.tells(has(podspec.API, "job#next"))
	r.want("both are deleted", []string{"gc:", "next:"}, "gc: later collect job", "gc: collect stopped", "next: assign")
	r.in("it lingers", "job Collecting, stopped Collecting, next Running")
	r.tells(podset.AskAgain{})
	r.want("gc has restarted", []string{"gc:"}, "gc: later collect job", "gc: collect stopped")
}

// TestLiving: gc is not answered before the runtime is known, and told whether all sources are.
func TestLiving(t *testing.T) {
	r := newRig(t, 0)
	living := func(up bool) (out []string) {
		r.tells(podset.Living{Up: up, Reply: func(m map[types.UID]bool, all bool) {
			if out = []string{"all"}; !all {
				out[0] = "some"
			}
			for uid := range m { // order-free: sorted below
				out = append(out, string(uid))
			}
		}})
		slices.Sort(out)
		return out
	}
	r.tells(node, has(podspec.File, "a b"))
	if got := living(false); got != nil {
		t.Errorf("the runtime was not listed, and gc is told %v", got)
	}
	r.tells(r.listed(""))
	if got := living(false); !slices.Equal(got, []string{"a", "b", "some"}) {
		t.Errorf("%v, want a and b, and that the apiserver was not heard", got)
	}
	r.tells(has(podspec.API, ""), has(podspec.File, "b"), ends("a", 0, 1))
	if got := living(false); !slices.Equal(got, []string{"all", "b"}) {
		t.Errorf("%v, want b: a is being collected", got)
	}
	r.reject["c"] = "OutOfcpu"
	r.tells(has(podspec.API, "c"))
	if got, up := living(false), living(true); !slices.Equal(got, []string{"all", "b", "c"}) ||
		!slices.Equal(up, []string{"all", "b"}) {
		t.Errorf("%v, and %v of those that were admitted", got, up)
	}
	r.tells(ends("b", 0, 1))
	if got, up := living(false), living(true); !slices.Equal(got, []string{"all", "b", "c"}) || !slices.Equal(up, []string{"all"}) {
		t.Errorf("%v, and up are %v, when b has ended and is wanted still", got, up)
	}
	r.tells(has(podspec.API, ""))
	if got := living(false); !slices.Equal(got, []string{"all", "b"}) {
		t.Errorf("%v, want b: nothing is left of c, which was refused", got)
	}
}

// TestStarted: that a pod has started is told once.
func TestStarted(t *testing.T) {
	r := newRig(t, 0)
	r.tells(node, r.listed(""), has(podspec.API, ""), has(podspec.File, "a"))
	p := reports("a", v1.PodRunning, 0)
	p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "app", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
	r.tells(reports("a", v1.PodPending, 0), p, p)
	r.want("it starts", []string{"metrics:"}, "metrics: a started")
	r.tells(p)
	r.want("once", []string{"metrics:"})
}
