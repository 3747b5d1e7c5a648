package pods_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pleg"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/pods"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

// rig is the parent of the actors of pods. It plays these, and podset.
type rig struct {
	*actortest.Rig
	actor *actortest.Actor[pods.Message]
	// refs are the actors that were made, by UID: the newest of each.
	refs map[types.UID]kernel.Ref[pod.Message]
}

func newRig(t *testing.T, limit int) *rig {
	t.Helper()
	r := &rig{Rig: actortest.New(t), refs: map[types.UID]kernel.Ref[pod.Message]{}}
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[pods.Message]{Name: "pods", MailboxLimit: limit, New: pods.New(&pods.Deps{
		Pod: &pod.Deps{},
		Begun: func(c pods.Child, old bool) {
			r.refs[c.Pod.UID] = c.Ref
			r.Say("podset: %s of life %d, old %v", c.Pod.UID, c.Life, old)
		},
		Restarted: func() { r.Say("probes: restarted") },
		Missed:    func() { r.Say("podset: missed") },
		Wrap: func(p *v1.Pod, _ func() kernel.Behavior[pod.Message]) func() kernel.Behavior[pod.Message] {
			return func() kernel.Behavior[pod.Message] { return &child{r, p.UID} }
		},
	})})
	r.Settle()
	return r
}

// child plays the actor of a pod.
type child struct {
	r   *rig
	uid types.UID
}

// Start implements kernel.Behavior.
func (c *child) Start(*kernel.Context[pod.Message]) { c.r.Say("%s: starts", c.uid) }

// Receive implements kernel.Behavior.
func (c *child) Receive(_ *kernel.Context[pod.Message], m pod.Message) {
	if h, is := m.(pod.RuntimeHint); is {
		c.r.Say("%s: hint %s", c.uid, h.ID)
		return
	}
	c.r.Say("%s: %s", c.uid, strings.TrimPrefix(fmt.Sprintf("%T", m), "pod."))
}

// Stop implements kernel.Stopper.
func (c *child) Stop(*kernel.Context[pod.Message]) { c.r.Say("%s: stops", c.uid) }

// tells sends messages, one right after another.
func (r *rig) tells(all ...pods.Message) {
	for _, m := range all {
		r.actor.Tell(m)
	}
	r.Settle()
}

func begin(uid types.UID, life uint32) pods.Begin {
	return pods.Begin{Life: life, Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "default", Name: string(uid)}}}
}

func hint(uid types.UID) pods.Hint {
	e := port.RuntimeEvent{ContainerID: "c1"}
	e.Pod.UID = uid
	return pods.Hint{Hint: pleg.Hint{Event: e}}
}

// living are the pods that have an actor.
func (r *rig) living() string {
	r.T.Helper()
	out := "no answer"
	r.tells(pods.List{Reply: func(all []pods.Child) {
		out = ""
		for _, c := range all {
			out += fmt.Sprintf("%s/%d ", c.Pod, c.Life)
		}
	}})
	return strings.TrimSpace(out)
}

// TestBeginAndEnd: a pod has one actor, however often it is asked for.
func TestBeginAndEnd(t *testing.T) {
	r := newRig(t, 0)
	r.tells(begin("b", 0), begin("a", 2))
	r.WantByListener("two begin", "podset: b of life 0, old false", "podset: a of life 2, old false", "b: starts", "a: starts")
	r.tells(begin("b", 0))
	r.WantByListener("once more", "podset: b of life 0, old true")
	check.Equal(t, r.living(), "default/a/2 default/b/0", "the living")
	r.tells(pods.End{UID: "b"}, pods.End{UID: "b"}, pods.End{UID: "nobody"})
	r.WantByListener("one ends", "b: stops")
	check.Equal(t, r.living(), "default/a/2", "the living")
}

// TestNextActor: the next actor of a pod begins when the name is free, for whoever asked last.
func TestNextActor(t *testing.T) {
	for name, c := range map[string]struct {
		told []pods.Message
		next string
	}{
		"ended, and asked for again":   {[]pods.Message{pods.End{UID: "a"}, begin("a", 0)}, "podset: a of life 0, old false"},
		"another life":                 {[]pods.Message{begin("a", 1)}, "podset: a of life 1, old false"},
		"two lives later":              {[]pods.Message{begin("a", 1), begin("a", 2)}, "podset: a of life 2, old false"},
		"asked for, and ended again":   {[]pods.Message{pods.End{UID: "a"}, begin("a", 0), pods.End{UID: "a"}}, ""},
		"a hint to one that is ending": {[]pods.Message{pods.End{UID: "a"}, hint("a"), pods.RuntimeBack{}}, ""},
	} {
		r := newRig(t, 0)
		r.tells(begin("a", 0))
		r.Forget()
		r.tells(c.told...)
		want := []string{"a: stops"}
		if c.next != "" {
			want = append(want, c.next, "a: starts")
		}
		r.WantByListener(name, want...)
	}
}

// TestRelay: what the runtime says goes to the pods that it is about.
func TestRelay(t *testing.T) {
	r := newRig(t, 0)
	r.tells(begin("b", 0), begin("a", 0))
	r.Forget()
	r.tells(hint("a"), hint("nobody"))
	r.Want("a hint", "a: hint c1")
	r.tells(pods.RuntimeBack{})
	r.WantByListener("to all", "a: RuntimeBack", "b: RuntimeBack")
}

// TestRestart: no pod has an actor then.
func TestRestart(t *testing.T) {
	r := newRig(t, 0)
	r.tells(begin("a", 0))
	r.Forget()
	r.actor.Crash()
	r.tells(hint("a"))
	r.Advance(time.Second)
	r.WantByListener("it restarts", "a: stops", "podset: missed", "probes: restarted")
	check.Equal(t, r.living(), "", "the living")
	old := r.refs["a"]
	r.tells(begin("a", 0))
	r.WantByListener("it is asked for again", "podset: a of life 0, old false", "a: starts")
	old.Tell(pod.Repeat{})
	r.Settle()
	r.Want("by the address of the old one", "a: Repeat")
}

// TestOverflow: messages were dropped, and podset is told so once.
func TestOverflow(t *testing.T) {
	r := newRig(t, 2)
	for range 2 {
		r.tells(hint("a"), hint("a"), hint("a"), hint("a"))
	}
	r.Want("not at once")
	r.Advance(time.Second)
	r.Want("later", "podset: missed")
	if r.System.Dropped() == 0 {
		t.Error("nothing was dropped")
	}
}

// TestNameThatIsNone: a pod whose UID can't be the name of an actor harms no other.
func TestNameThatIsNone(t *testing.T) {
	r := newRig(t, 0)
	r.tells(begin("a/b", 0), begin("c", 0))
	r.WantByListener("the other begins", "podset: c of life 0, old false", "c: starts")
	check.Count(t, r.Logged("cannot start the actor of this pod", "default/a/b"), 1, "%d lines of the log")
}
