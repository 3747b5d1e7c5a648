package podset_test

import (
	"context"
	"fmt"
	"maps"
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
	"github.com/troupe-dev/troupe/actors/mirrors"
	"github.com/troupe-dev/troupe/actors/pleg"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/pods"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/sources"
	"github.com/troupe-dev/troupe/actors/status"
	"github.com/troupe-dev/troupe/tests/actortest"
)

// rig is the podset actor on a virtual clock, with the parent of the actors of pods. The rig plays everybody else that
// it talks to, the actors of pods included, and writes down what each is told.
type rig struct {
	*actortest.Rig
	actor  *actortest.Actor[podset.Message]
	parent *actortest.Actor[pods.Message]
	// disk are the checkpoints, diskErr what it answers to a write instead. loads and saves are its answers.
	disk         map[string][]byte
	diskErr      error
	loads, saves *actortest.Answers
	// reject is why a pod is not admitted, by name. beside are the UIDs of those that it was asked beside.
	reject map[string]string
	beside map[string][]string
	// collecting is what gc answers when it is asked which pods it removes; it does not if mute.
	collecting []observed.PodRef
	counts     podset.Counts
	// places plays assignments, nil for none.
	places *podset.Places
	// room is how many pods fit; 0 for any number. short is what is said of that to be short.
	room  int
	short v1.ResourceList
	// checks counts the checks of admission.
	checks      int
	mute        bool
	allocatable v1.ResourceList
	// crash makes the actor of a pod panic at its next message.
	crash map[types.UID]bool
	// deaf: Begin does not reach the parent of these actors. dumb: its answers are lost.
	deaf, dumb bool
}

// newRig makes a node with the sources file and api. With limit 0 the mailbox is as long as usual.
func newRig(t *testing.T, limit int, change ...func(r *rig)) *rig {
	t.Helper()
	r := &rig{
		disk: map[string][]byte{}, reject: map[string]string{},
		beside: map[string][]string{}, crash: map[types.UID]bool{},
	}
	r.Rig = actortest.New(t, func(c *kernel.Config) {
		c.OnCrash = func(crash *kernel.CrashReport) { r.actor.Tell(podset.Crashed{Report: crash}) }
	})
	r.loads, r.saves = r.NewAnswers(), r.NewAnswers()
	for _, f := range change {
		f(r)
	}
	r.parent = actortest.Spawn(r.Rig, kernel.Spec[pods.Message]{Name: "pods", New: pods.New(r.parentDeps())})
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[podset.Message]{
		Name: "podset", MailboxLimit: limit, Policy: podset.Policy, New: podset.New(r.deps()),
	})
	r.Settle()
	return r
}

func (r *rig) parentDeps() *pods.Deps {
	again := func() { r.actor.Tell(podset.ListChildren{}) }
	return &pods.Deps{
		Pod: &pod.Deps{},
		Begun: func(c pods.Child, old bool) {
			if !r.dumb {
				r.actor.Tell(podset.Begun{Child: c, Old: old})
			}
		},
		Restarted: again, Missed: again,
		Wrap: func(p *v1.Pod, _ func() kernel.Behavior[pod.Message]) func() kernel.Behavior[pod.Message] {
			return func() kernel.Behavior[pod.Message] { return &child{r, p.UID} }
		},
	}
}

func (r *rig) deps() *podset.Deps {
	return &podset.Deps{
		Sources: []podspec.Origin{podspec.File, podspec.API}, Checkpoints: r, Events: r,
		Machine: pod.Machine{Allocatable: r.allocatable},
		Begin: func(m pods.Begin) {
			if !r.deaf {
				r.parent.Tell(m)
			}
		},
		End:   func(uid types.UID) { r.parent.Tell(pods.End{UID: uid}) },
		List:  func(reply func([]pods.Child)) { r.parent.Tell(pods.List{Reply: reply}) },
		Admit: r.admit, Places: r.places, Counts: r.counts,
		Cluster: &podset.Cluster{
			Show: r.show,
			ShowAll: func(all status.Shows) {
				for _, m := range all.All {
					r.show(m)
				}
			},
			Forget:   func(uid types.UID) { r.Say("status: forget %s", uid) },
			ReadNode: func(number uint64) { r.Say("nodestatus: read %d", number) },
			Statics: func(m mirrors.Statics) {
				var names []string
				for _, p := range m.Pods {
					names = append(names, fmt.Sprintf("%s/%d", p.Pod.UID, p.Life))
				}
				r.Say("mirrors: %v, all %v", names, m.Seen)
			},
		},
		Collect: func(ref observed.PodRef, abandoned, later bool) {
			what := "collect"
			switch {
			case abandoned:
				what = "collect abandoned"
			case later:
				what = "later collect"
			}
			r.Say("gc: %s %s", what, ref.UID)
		},
		Collecting: func(reply func([]observed.PodRef)) {
			r.Say("gc: what is being collected?")
			if !r.mute {
				reply(r.collecting)
			}
		},
		ForgetImages: func(uid types.UID) { r.Say("images: forget %s", uid) },
		Retain:       func(all, wanted map[types.UID]bool) { r.Say("retain: %d pods, %d of a source", len(all), len(wanted)) },
		Restarted:    func() { r.Say("all: repeat") },
		Started:      func(s podset.Started) { r.Say("metrics: %s started", s.Pod.UID) },
	}
}

func (r *rig) show(m status.Show) {
	final := ""
	if m.Final {
		final = " for the last time"
	}
	r.Say("status: %s is %s %s%s", m.UID, m.Status.Phase, m.Status.Reason, final)
}

// notLabelled is why a pod is rejected whose node selector the known labels of the node do not match.
const notLabelled = "NotLabelled"

func (r *rig) admit(p *v1.Pod, others []*v1.Pod, _ *v1.Node, pressure admit.Pressure) *admit.Rejection {
	if pressure != (admit.Pressure{}) {
		return &admit.Rejection{Reason: "Evicted", Message: fmt.Sprintf("%+v", pressure)}
	}
	r.checks++
	r.beside[p.Name] = nil
	for _, o := range others {
		r.beside[p.Name] = append(r.beside[p.Name], string(o.UID))
	}
	if r.room > 0 && len(others) >= r.room {
		return &admit.Rejection{Reason: "OutOfpods", Message: "no room", Short: r.short}
	}
	if why := r.reject[p.Name]; why != "" {
		return &admit.Rejection{Reason: why, Message: why, ByLabels: why == notLabelled}
	}
	return nil
}

// Record implements port.Recorder.
func (r *rig) Record(e port.Event) { r.Say("event: %s %s", e.Pod.UID, e.Reason) }

// Load implements port.Checkpoints.
func (r *rig) Load(_ context.Context, name string, done func([]byte, error)) {
	r.loads.Give(func() { done(r.disk[name], nil) })
}

// Save implements port.Checkpoints.
func (r *rig) Save(_ context.Context, name string, data []byte, done func(error)) {
	r.saves.Give(func() {
		if r.diskErr == nil {
			r.disk[name] = data
		}
		done(r.diskErr)
	})
}

// SetAside implements port.Checkpoints.
func (r *rig) SetAside(_ context.Context, name string, done func(string, error)) {
	delete(r.disk, name)
	done(name+".damaged", nil)
}

// answers lets the disk answer what it was asked, one call after another.
func (r *rig) answers() {
	for r.loads.Kept()+r.saves.Kept() > 0 {
		r.answersOne()
	}
}

// answersOne lets the disk answer the first call that it has not answered.
func (r *rig) answersOne() {
	from := r.loads
	if from.Kept() == 0 {
		from = r.saves
	}
	from.Release(0)
	r.Advance(time.Millisecond)
}

// child plays the actor of a pod.
type child struct {
	r   *rig
	uid types.UID
}

// Start implements kernel.Behavior.
func (c *child) Start(ctx *kernel.Context[pod.Message]) {
	if ctx.Incarnation() > 1 {
		c.r.actor.Tell(podset.Asked{Ask: pod.Ask{UID: c.uid}})
	}
}

// Receive implements kernel.Behavior.
func (c *child) Receive(_ *kernel.Context[pod.Message], m pod.Message) {
	if c.r.crash[c.uid] {
		delete(c.r.crash, c.uid)
		panic(actortest.Ordered)
	}
	c.r.Say("%s: %s", c.uid, text(m))
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
		if at := m.Placement; at != nil {
			out += ", on " + at.Shared
			for _, name := range slices.Sorted(maps.Keys(at.Own)) {
				out += fmt.Sprintf(" and %s %s", name, at.Own[name].CPUs)
			}
			if at.Number != 0 {
				out += fmt.Sprintf(", and says when as %d", at.Number)
			}
			for _, s := range at.HealthOf("c") {
				out += fmt.Sprintf(", %s %s", s.Name, s.Resources[0].Health)
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

// tells sends messages to podset, one after another, and lets the disk answer.
func (r *rig) tells(all ...podset.Message) {
	for _, m := range all {
		r.actor.Tell(m)
		r.Advance(2 * time.Millisecond)
	}
}

// want compares what was said since the last time. Only lines that begin so are looked at; all of them if
// nothing is given. The order counts for each listener on its own: two actors run side by side.
func (r *rig) want(what string, only []string, want ...string) {
	r.T.Helper()
	if len(only) > 0 {
		r.Settle()
		r.Keep(only...)
	}
	r.WantByListener(what, want...)
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
func has(source podspec.Origin, names string) podset.Wanted {
	var list []*v1.Pod
	for s := range strings.FieldsSeq(names) {
		list = append(list, made(s))
	}
	return wants(source, list...)
}

func wants(source podspec.Origin, list ...*v1.Pod) podset.Wanted {
	return podset.Wanted{Update: sources.Update{Source: source, Seen: true, Pods: list}}
}

// listed is a list of the runtime, which has a ready sandbox of each of these pods, made one after another.
func (r *rig) listed(names string) podset.Listed {
	s := pleg.Snapshot{Listed: r.Now()}
	for name := range strings.FieldsSeq(names) {
		p := made(name)
		made := actortest.Begin.Add(time.Duration(len(s.Runtime.Pods)-100) * time.Second)
		s.Runtime.Pods = append(s.Runtime.Pods, observed.RuntimePod{
			Ref: observed.PodRef{UID: p.UID, Namespace: p.Namespace, Name: p.Name},
			Pod: observed.Pod{Sandboxes: []observed.Sandbox{{State: observed.SandboxReady, CreatedAt: made}}},
		})
	}
	return podset.Listed{Snapshot: s}
}

// reports is the status of a pod in its life.
func reports(uid types.UID, phase v1.PodPhase, life uint32) podset.Reported {
	return podset.Reported{Report: pod.Report{UID: uid, FirstSandbox: life, Life: "Syncing", Status: &v1.PodStatus{Phase: phase}}}
}

func ends(uid types.UID, life, next uint32) podset.Finished {
	return podset.Finished{Finished: pod.Finished{UID: uid, FirstSandbox: life, NextSandbox: next}}
}

var node = podset.NodeSeen{Node: &v1.Node{}}

// states are the states of all pods, in order of age.
func (r *rig) states() string {
	r.T.Helper()
	var out []string
	asked := false
	r.actor.Tell(podset.Query{Reply: func(i podset.Inventory) {
		asked = true
		for _, p := range i.Pods {
			out = append(out, fmt.Sprintf("%s %v", p.Pod.UID, p.State))
		}
	}})
	r.Settle()
	if !asked {
		r.T.Fatalf("podset does not answer")
	}
	return strings.Join(out, ", ")
}

func (r *rig) in(what, want string) {
	r.T.Helper()
	if got := r.states(); got != want {
		r.T.Fatalf("%s: %s, want %s", what, got, want)
	}
}
