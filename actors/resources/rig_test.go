package resources_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/resources"
)

// rig is the resources actor alone, on a virtual clock. The rig plays the actors of pods, pods and the cgroups,
// which answer a call when the test says so.
type rig struct {
	*kernel.Virtual
	t   *testing.T
	sys *kernel.System
	ref kernel.Ref[resources.Message]
	// said is what others were told and asked, events are those of pods.
	said, events []string
	actors       map[types.UID]kernel.Ref[pod.Message]
	calls        []call
	// cgroups are those of pods, living the pods that pods knows; mute: it does not say now, but with reply.
	cgroups []types.UID
	living  map[types.UID]bool
	mute    bool
	reply   func(map[types.UID]bool)
	crash   bool
	log     bytes.Buffer
}

// call is one that has not been answered.
type call struct {
	text   string
	answer func(error)
}

const (
	base     = 500 * time.Millisecond
	deadline = 2 * time.Minute
	period   = time.Minute
	// settled is after when the cgroups of classes have been set at the start, first when a sweep has begun.
	settled = 2 * time.Second
	first   = 10 * time.Second
)

var (
	begin  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	errNot = errors.New("device busy")
)

// newRig makes the actor on a node with 4 CPUs and 1000 bytes of memory. Its classes have been set: top, and the
// two of classes without any pods.
func newRig(t *testing.T) *rig {
	t.Helper()
	r := bareRig(t)
	r.pass(settled)
	r.answers(nil, "set kubepods: shares 4096, memory 1000")
	r.answers(nil, "set kubepods/burstable: shares 2")
	r.answers(nil, "set kubepods/besteffort: shares 2")
	r.said = nil
	return r
}

// bareRig makes it at the moment of its start.
func bareRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{
		t: t, Virtual: kernel.NewVirtual(1, begin), actors: map[types.UID]kernel.Ref[pod.Message]{},
		living: map[types.UID]bool{},
	}
	var err error
	r.sys, err = kernel.NewSystem(kernel.Config{Clock: r.Virtual, Seed: 1, Log: zerolog.New(&r.log)})
	r.fatal(err)
	runner, err := kernel.NewRunner(r.sys, pod.Pools(2, 1)...)
	r.fatal(err)
	construct := resources.New(&resources.Deps{
		Cgroups: r, Events: r, Restarted: func() { r.say("all: repeat") },
		Settings: podcgroup.Settings{Capacity: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("1000"),
		}},
		Living: func(reply func(map[types.UID]bool)) {
			r.say("pods: who lives?")
			if r.reply = reply; !r.mute {
				reply(r.living)
			}
		},
		Backoff: backoff.Policy{Base: base, Max: time.Minute}, Period: period, Deadline: deadline,
	})
	r.ref, err = kernel.SpawnRoot(r.sys, kernel.Spec[resources.Message]{
		Name: "resources", Runner: runner, Policy: kernel.ForPods, MailboxLimit: 8,
		New: func() kernel.Behavior[resources.Message] { return &crasher{construct(), r} },
	})
	r.fatal(err)
	return r
}

func (r *rig) fatal(err error) {
	if err != nil {
		r.t.Helper()
		r.t.Fatal(err)
	}
}

func (r *rig) say(format string, args ...any) { r.said = append(r.said, fmt.Sprintf(format, args...)) }

// Record implements port.Recorder.
func (r *rig) Record(e port.Event) {
	r.events = append(r.events, fmt.Sprintf("%s: %s: %s", e.Pod.UID, e.Reason, e.Message))
}

// Set implements resources.Cgroups.
func (r *rig) Set(_ context.Context, name podcgroup.Name, v podcgroup.Values, done func(error)) {
	text := fmt.Sprintf("set %s: shares %d", strings.Join(name, "/"), v.CPUShares)
	if v.Memory != 0 {
		text += fmt.Sprintf(", memory %d", v.Memory)
	}
	r.called(text, done)
}

// RemovePod implements resources.Cgroups.
func (r *rig) RemovePod(_ context.Context, uid types.UID, done func(error)) {
	r.called("remove "+string(uid), func(err error) {
		if err == nil {
			r.cgroups = slices.DeleteFunc(r.cgroups, func(u types.UID) bool { return u == uid })
		}
		done(err)
	})
}

// Pods implements resources.Cgroups.
func (r *rig) Pods(_ context.Context, done func([]types.UID, error)) {
	r.called("list", func(err error) { done(slices.Clone(r.cgroups), err) })
}

func (r *rig) called(text string, answer func(error)) {
	r.say("cgroups: %s", text)
	r.calls = append(r.calls, call{text, answer})
}

// answers lets the call be answered.
func (r *rig) answers(err error, text string) {
	r.t.Helper()
	r.Settle()
	n := slices.IndexFunc(r.calls, func(c call) bool { return c.text == text })
	if n < 0 {
		r.t.Fatalf("nobody asked to %s", text)
	}
	c := r.calls[n]
	r.calls = slices.Delete(r.calls, n, n+1)
	c.answer(err)
	r.Settle()
}

// pass lets time pass.
func (r *rig) pass(d time.Duration) {
	r.Settle()
	r.Advance(d)
	r.Settle()
}

// until lets time pass up to so long after the beginning.
func (r *rig) until(d time.Duration) { r.pass(begin.Add(d).Sub(r.Now())) }

// want compares what was said since the last time. The order counts for each listener on its own.
func (r *rig) want(what string, want ...string) {
	r.t.Helper()
	compare(r, what, &r.said, want)
}

// wantEvents compares the events since the last time, in the same way.
func (r *rig) wantEvents(what string, want ...string) {
	r.t.Helper()
	compare(r, what, &r.events, want)
}

func compare(r *rig, what string, from *[]string, want []string) {
	r.t.Helper()
	r.Settle()
	got := *from
	*from = nil
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

// warned is how often the log has these words.
func (r *rig) warned(words string) int { return strings.Count(r.log.String(), words) }

// asks is a pod that asks for so much CPU; without any it is BestEffort.
func (r *rig) asks(uid types.UID, cpu string) resources.Ensure {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: string(uid), UID: uid}}
	c := v1.Container{Name: "app"}
	if cpu != "" {
		c.Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
	}
	p.Spec.Containers = []v1.Container{c}
	return resources.Ensure{EnsureCgroup: pod.EnsureCgroup{Pod: p, Make: true, ReplyTo: r.actor(uid)}}
}

// removes is the end of a pod.
func (r *rig) removes(uid types.UID) resources.Remove {
	return resources.Remove{RemoveCgroup: pod.RemoveCgroup{UID: uid, ReplyTo: r.actor(uid)}}
}

func (r *rig) actor(uid types.UID) kernel.Ref[pod.Message] {
	if _, ok := r.actors[uid]; !ok {
		ref, err := kernel.SpawnRoot(r.sys, kernel.Spec[pod.Message]{
			Name: "pod-" + string(uid), New: func() kernel.Behavior[pod.Message] { return &listener{r, uid} },
		})
		r.fatal(err)
		r.actors[uid] = ref
	}
	return r.actors[uid]
}

// listener plays a pod's actor.
type listener struct {
	r   *rig
	uid types.UID
}

// Start implements kernel.Behavior.
func (*listener) Start(*kernel.Context[pod.Message]) {}

// Receive implements kernel.Behavior.
func (l *listener) Receive(_ *kernel.Context[pod.Message], m pod.Message) {
	c := m.(pod.CgroupAnswer).Cgroup
	text := [...]string{"down", "known", "pending", "up", "failed"}[c.State]
	if c.Going {
		text += ", going"
	}
	if c.Removed {
		text += ", removed"
	}
	if c.Message != "" {
		text += ": " + c.Message
	}
	l.r.say("%s: %s", l.uid, text)
}

// crasher is the resources actor, with a crash on order.
type crasher struct {
	kernel.Behavior[resources.Message]
	r *rig
}

func (c *crasher) Receive(ctx *kernel.Context[resources.Message], m resources.Message) {
	if c.r.crash {
		c.r.crash = false
		panic("on order")
	}
	c.Behavior.Receive(ctx, m)
}

// Overflowed implements kernel.OverflowHandler.
func (c *crasher) Overflowed(ctx *kernel.Context[resources.Message]) {
	c.Behavior.(kernel.OverflowHandler[resources.Message]).Overflowed(ctx)
}
