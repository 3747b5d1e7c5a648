package pods_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pleg"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/pods"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/sources"
)

// rig is the pods actor on a virtual clock. The rig plays everybody that it talks to, the actors of pods
// included, and writes down what each is told.
type rig struct {
	*kernel.Virtual
	t    *testing.T
	ref  kernel.Ref[pods.Message]
	sys  *kernel.System
	said []string
	// disk are the checkpoints, diskErr what the disk answers instead. late are the writes that the disk
	// has not answered yet: it writes late if slow, and reads late if deaf.
	disk       map[string][]byte
	diskErr    error
	slow, deaf bool
	late       []func()
	// reject is why a pod is not admitted, by name. beside are the UIDs of those that it was asked beside.
	reject map[string]string
	beside map[string][]string
	// collecting is what gc answers when it is asked which pods it removes; it does not if mute.
	collecting  []observed.PodRef
	mute        bool
	allocatable v1.ResourceList
	// crash makes the actor of a pod, or pods itself under the empty UID, panic at its next message.
	crash map[types.UID]bool
}

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// newRig makes a node with the sources file and api. With limit 0 the mailbox is as long as usual.
func newRig(t *testing.T, limit int, change ...func(r *rig)) *rig {
	t.Helper()
	r := &rig{
		t: t, Virtual: kernel.NewVirtual(1, begin), disk: map[string][]byte{}, reject: map[string]string{},
		beside: map[string][]string{}, crash: map[types.UID]bool{},
	}
	for _, f := range change {
		f(r)
	}
	var err error
	r.sys, err = kernel.NewSystem(kernel.Config{Clock: r.Virtual, Seed: 1, OnCrash: func(c *kernel.CrashReport) {
		r.ref.Tell(pods.Crashed{Report: c})
	}})
	r.fatal(err)
	runner, err := kernel.NewRunner(r.sys, pod.Pools(4, 2)...)
	r.fatal(err)
	construct := pods.New(r.deps())
	r.ref, err = kernel.SpawnRoot(r.sys, kernel.Spec[pods.Message]{
		Name: "pods", Runner: runner, MailboxLimit: limit,
		New: func() kernel.Behavior[pods.Message] { return &crasher{construct(), r} },
	})
	r.fatal(err)
	r.Settle()
	return r
}

func (r *rig) fatal(err error) {
	if err != nil {
		r.t.Helper()
		r.t.Fatal(err)
	}
}

func (r *rig) say(format string, args ...any) { r.said = append(r.said, fmt.Sprintf(format, args...)) }

func (r *rig) deps() *pods.Deps {
	return &pods.Deps{
		Sources: []podspec.Origin{podspec.File, podspec.API}, Checkpoints: r,
		Pod: &pod.Deps{
			Events: r, Allocatable: r.allocatable,
			Ask: func(m pod.Ask) { r.ref.Tell(pods.Asked{Ask: m}) },
		},
		Admit: r.admit,
		Cluster: &pods.Cluster{
			Show: func(m pods.Shown) {
				final := ""
				if m.Final {
					final = " for the last time"
				}
				r.say("status: %s is %s %s%s", m.UID, m.Status.Phase, m.Status.Reason, final)
			},
			Forget: func(uid types.UID) { r.say("status: forget %s", uid) },
			Statics: func(m pods.Statics) {
				var names []string
				for _, p := range m.Pods {
					names = append(names, fmt.Sprintf("%s/%d", p.Pod.UID, p.Life))
				}
				r.say("mirrors: %v, all %v", names, m.Seen)
			},
		},
		Collect: func(ref observed.PodRef, abandoned bool) {
			what := "collect"
			if abandoned {
				what = "collect abandoned"
			}
			r.say("gc: %s %s", what, ref.UID)
		},
		Collecting: func(reply func([]observed.PodRef)) {
			r.say("gc: what is being collected?")
			if !r.mute {
				reply(r.collecting)
			}
		},
		ForgetImages: func(uid types.UID) { r.say("images: forget %s", uid) },
		Restarted:    func() { r.say("all: repeat") },
		Started:      func(s pods.Started) { r.say("metrics: %s started", s.Pod.UID) },
		Wrap: func(p *v1.Pod, _ func() kernel.Behavior[pod.Message]) func() kernel.Behavior[pod.Message] {
			return func() kernel.Behavior[pod.Message] { return &child{r, p.UID} }
		},
	}
}

func (r *rig) admit(p *v1.Pod, others []*v1.Pod, _ *v1.Node) *admit.Rejection {
	r.beside[p.Name] = nil
	for _, o := range others {
		r.beside[p.Name] = append(r.beside[p.Name], string(o.UID))
	}
	if why := r.reject[p.Name]; why != "" {
		return &admit.Rejection{Reason: why, Message: why}
	}
	return nil
}

// Record implements port.Recorder.
func (r *rig) Record(e port.Event) { r.say("event: %s %s", e.Pod.UID, e.Reason) }

// Load implements port.Checkpoints.
func (r *rig) Load(_ context.Context, name string, done func([]byte, error)) {
	answer := func() { done(r.disk[name], nil) }
	if r.deaf {
		r.late = append(r.late, answer)
		return
	}
	r.AfterFunc(time.Millisecond, answer)
}

// Save implements port.Checkpoints.
func (r *rig) Save(_ context.Context, name string, data []byte, done func(error)) {
	answer := func() {
		if r.diskErr == nil {
			r.disk[name] = data
		}
		done(r.diskErr)
	}
	if r.slow {
		r.late = append(r.late, answer)
		return
	}
	r.AfterFunc(time.Millisecond, answer)
}

// answers lets the disk answer what it was asked, one call after another.
func (r *rig) answers() {
	for len(r.late) > 0 {
		r.answersOne()
	}
}

// answersOne lets the disk answer the first call that it has not answered.
func (r *rig) answersOne() {
	answer := r.late[0]
	r.late = r.late[1:]
	answer()
	r.pass(time.Millisecond)
}

// child plays the actor of a pod.
type child struct {
	r   *rig
	uid types.UID
}

// Start implements kernel.Behavior.
func (c *child) Start(ctx *kernel.Context[pod.Message]) {
	if ctx.Incarnation() > 1 {
		c.r.ref.Tell(pods.Asked{Ask: pod.Ask{UID: c.uid}})
	}
}

// Receive implements kernel.Behavior.
func (c *child) Receive(_ *kernel.Context[pod.Message], m pod.Message) {
	if c.r.crash[c.uid] {
		delete(c.r.crash, c.uid)
		panic("on order")
	}
	c.r.say("%s: %s", c.uid, text(m))
}

// text is what a pod's actor is told, as far as these tests look at it.
func text(m pod.Message) string {
	switch m := m.(type) {
	case pod.Assign:
		out := "assign"
		if m.View == nil {
			out += ", look"
		} else if n := len(m.View.Sandboxes); n > 0 {
			out += fmt.Sprintf(", %d sandboxes", n)
		}
		if m.FirstSandbox != 0 {
			out += fmt.Sprintf(", first sandbox %d", m.FirstSandbox)
		}
		if m.Status != nil {
			out += ", status " + string(m.Status.Phase)
		}
		if m.Stop != nil {
			out += fmt.Sprintf(", stop in %v: %s", m.Stop.Grace, m.Stop.Why)
			if m.Stop.Fail {
				out += " (failed)"
			}
		}
		return out
	case pod.RuntimeHint:
		return "hint " + m.ID
	case pod.RuntimeSeen:
		return fmt.Sprintf("seen %d sandboxes", len(m.View.Sandboxes))
	case pod.Noted:
		return "noted " + m.Container + " " + m.ID
	default:
		return strings.TrimPrefix(fmt.Sprintf("%T", m), "pod.")
	}
}

// crasher is the pods actor, with a crash on order.
type crasher struct {
	kernel.Behavior[pods.Message]
	r *rig
}

func (c *crasher) Receive(ctx *kernel.Context[pods.Message], m pods.Message) {
	if c.r.crash[""] {
		delete(c.r.crash, "")
		panic("on order")
	}
	c.Behavior.Receive(ctx, m)
}

// ChildStopped implements kernel.ChildWatcher.
func (c *crasher) ChildStopped(ctx *kernel.Context[pods.Message], name string) {
	c.Behavior.(kernel.ChildWatcher[pods.Message]).ChildStopped(ctx, name)
}

// Overflowed implements kernel.OverflowHandler.
func (c *crasher) Overflowed(ctx *kernel.Context[pods.Message]) {
	c.Behavior.(kernel.OverflowHandler[pods.Message]).Overflowed(ctx)
}

// pass lets time pass, and all messages be handled.
func (r *rig) pass(d time.Duration) {
	r.Settle()
	r.Advance(d)
	r.Settle()
}

// tells sends messages to pods, one after another, and lets the disk answer.
func (r *rig) tells(all ...pods.Message) {
	for _, m := range all {
		r.ref.Tell(m)
		r.pass(2 * time.Millisecond)
	}
}

// want compares what was said since the last time. Only lines that begin so are looked at; all of them if
// nothing is given. The order counts for each listener on its own: two actors run side by side.
func (r *rig) want(what string, only []string, want ...string) {
	r.t.Helper()
	var got []string
	for _, line := range r.said {
		if len(only) == 0 || slices.ContainsFunc(only, func(p string) bool { return strings.HasPrefix(line, p) }) {
			got = append(got, line)
		}
	}
	r.said = nil
	listener := func(x, y string) int {
		to, _, _ := strings.Cut(x, ":")
		other, _, _ := strings.Cut(y, ":")
		return strings.Compare(to, other)
	}
	slices.SortStableFunc(got, listener)
	slices.SortStableFunc(want, listener)
	if !slices.Equal(got, want) {
		r.t.Fatalf("%s: at %v was said\n  %s\nwant\n  %s",
			what, r.Now().Sub(begin), strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// made is a pod "name" or "name#uid", with a grace period of 30 s.
func made(s string) *v1.Pod {
	name, uid, found := strings.Cut(s, "#")
	if !found {
		uid = name
	}
	grace := int64(30)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid)},
		Spec:       v1.PodSpec{TerminationGracePeriodSeconds: &grace},
	}
}

// has is all that a source wants.
func has(source podspec.Origin, names string) pods.Wanted {
	var list []*v1.Pod
	for s := range strings.FieldsSeq(names) {
		list = append(list, made(s))
	}
	return wants(source, list...)
}

func wants(source podspec.Origin, list ...*v1.Pod) pods.Wanted {
	return pods.Wanted{Update: sources.Update{Source: source, Seen: true, Pods: list}}
}

// listed is a list of the runtime, which has a ready sandbox of each of these pods, made one after another.
func (r *rig) listed(names string) pods.Listed {
	s := pleg.Snapshot{Listed: r.Now()}
	for name := range strings.FieldsSeq(names) {
		p := made(name)
		made := begin.Add(time.Duration(len(s.Runtime.Pods)-100) * time.Second)
		s.Runtime.Pods = append(s.Runtime.Pods, observed.RuntimePod{
			Ref: observed.PodRef{UID: p.UID, Namespace: p.Namespace, Name: p.Name},
			Pod: observed.Pod{Sandboxes: []observed.Sandbox{{State: observed.SandboxReady, CreatedAt: made}}},
		})
	}
	return pods.Listed{Snapshot: s}
}

// reports is the status of a pod in its life.
func reports(uid types.UID, phase v1.PodPhase, life uint32) pods.Reported {
	return pods.Reported{Report: pod.Report{UID: uid, FirstSandbox: life, Life: "Syncing", Status: &v1.PodStatus{Phase: phase}}}
}

func ends(uid types.UID, life, next uint32) pods.Finished {
	return pods.Finished{Finished: pod.Finished{UID: uid, FirstSandbox: life, NextSandbox: next}}
}

var node = pods.NodeSeen{Node: &v1.Node{}}

// states are the states of all pods, in order of age.
func (r *rig) states() string {
	r.t.Helper()
	var out []string
	asked := false
	r.ref.Tell(pods.Query{Reply: func(i pods.Inventory) {
		asked = true
		for _, p := range i.Pods {
			out = append(out, fmt.Sprintf("%s %v", p.Pod.UID, p.State))
		}
	}})
	r.Settle()
	if !asked {
		r.t.Fatal("pods does not answer")
	}
	return strings.Join(out, ", ")
}

func (r *rig) in(what, want string) {
	r.t.Helper()
	if got := r.states(); got != want {
		r.t.Fatalf("%s: %s, want %s", what, got, want)
	}
}
