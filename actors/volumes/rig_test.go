package volumes_test

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

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/volumes"
)

// rig is the volumes actor alone, on a virtual clock. The rig plays the pods and the host. The host answers a
// call when the test says so.
type rig struct {
	*kernel.Virtual
	t   *testing.T
	sys *kernel.System
	ref kernel.Ref[volumes.Message]
	// said is what others were told and asked, events are those of pods.
	said, events []string
	pods         map[string]kernel.Ref[pod.Message]
	calls        []call
	crash        bool
}

// call is one that the host has not answered.
type call struct {
	text   string
	answer func(error)
}

const (
	base     = 500 * time.Millisecond
	deadline = 2 * time.Minute
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, Virtual: kernel.NewVirtual(1, begin), pods: map[string]kernel.Ref[pod.Message]{}}
	var err error
	r.sys, err = kernel.NewSystem(kernel.Config{Clock: r.Virtual, Seed: 1})
	r.fatal(err)
	runner, err := kernel.NewRunner(r.sys, pod.Pools(2, 1)...)
	r.fatal(err)
	construct := volumes.New(&volumes.Deps{
		Host: r, Events: r, Restarted: func() { r.say("all: repeat") },
		Backoff: backoff.Policy{Base: base, Max: time.Minute}, Deadline: deadline,
	})
	r.ref, err = kernel.SpawnRoot(r.sys, kernel.Spec[volumes.Message]{
		Name: "volumes", Runner: runner, Policy: kernel.ForPods, MailboxLimit: 8,
		New: func() kernel.Behavior[volumes.Message] { return &crasher{construct(), r} },
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

// PreparePod implements volumes.Host.
func (r *rig) PreparePod(ctx context.Context, p *v1.Pod, done func(error)) {
	r.called(ctx, "prepare "+string(p.UID), done)
}

// MountVolume implements volumes.Host.
func (r *rig) MountVolume(ctx context.Context, m port.MountVolume, done func(string, error)) {
	text := fmt.Sprintf("mount %s/%s", m.Pod.UID, m.Volume.Name)
	if m.Content != nil {
		for _, f := range m.Content.Files {
			text += fmt.Sprintf(" %s=%s", f.Path, f.Data)
		}
	}
	r.called(ctx, text, func(err error) { done("/"+m.Volume.Name, err) })
}

// UnmountPod implements volumes.Host.
func (r *rig) UnmountPod(ctx context.Context, uid types.UID, done func(error)) {
	r.called(ctx, "unmount "+string(uid), done)
}

func (r *rig) called(ctx context.Context, text string, answer func(error)) {
	r.say("host: %s", text)
	r.calls = append(r.calls, call{text, answer})
	ctx.(interface{ AfterFunc(func()) func() bool }).AfterFunc(func() {
		if slices.ContainsFunc(r.calls, func(c call) bool { return c.text == text }) {
			r.say("host: %s: given up", text)
		}
	})
}

// answers lets the host answer these calls, all with the same error.
func (r *rig) answers(err error, texts ...string) {
	r.t.Helper()
	for _, text := range texts {
		r.Settle()
		n := slices.IndexFunc(r.calls, func(c call) bool { return c.text == text })
		if n < 0 {
			r.t.Fatalf("the host was not asked: %s", text)
		}
		c := r.calls[n]
		r.calls = slices.Delete(r.calls, n, n+1)
		c.answer(err)
		r.Settle()
	}
}

// pass lets time pass.
func (r *rig) pass(d time.Duration) {
	r.Settle()
	r.Advance(d)
	r.Settle()
}

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

// mounts is a pod with these volumes: empty directories, but for map, which holds the ConfigMap settings.
func (r *rig) mounts(name, list string) volumes.Mount {
	if _, ok := r.pods[name]; !ok {
		ref, err := kernel.SpawnRoot(r.sys, kernel.Spec[pod.Message]{
			Name: name, New: func() kernel.Behavior[pod.Message] { return &listener{r, name} },
		})
		r.fatal(err)
		r.pods[name] = ref
	}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	for volume := range strings.FieldsSeq(list) {
		v := v1.Volume{Name: volume, VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}
		if volume == "map" {
			v.VolumeSource = v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
				LocalObjectReference: v1.LocalObjectReference{Name: "settings"},
			}}
		}
		p.Spec.Volumes = append(p.Spec.Volumes, v)
	}
	return volumes.Mount{MountVolumes: pod.MountVolumes{Pod: p, ReplyTo: r.pods[name]}}
}

// with is the same request, with what is known of the ConfigMap: its value of key, or its state without one.
func with(m volumes.Mount, value string, state podobjects.State) volumes.Mount {
	e := podobjects.Entry{
		Ref:   podobjects.Ref{Kind: podobjects.ConfigMap, Namespace: "default", Name: "settings"},
		State: state,
	}
	if state == podobjects.Found {
		e.Object = &v1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "settings", ResourceVersion: value},
			Data:       map[string]string{"key": value},
		}
	}
	m.Objects = podobjects.NewSet([]podobjects.Entry{e})
	return m
}

// unmounts is the end of that pod.
func unmounts(m volumes.Mount) volumes.Unmount {
	return volumes.Unmount{UnmountVolumes: pod.UnmountVolumes{UID: m.Pod.UID, Pod: m.Pod, ReplyTo: m.ReplyTo}}
}

// listener plays a pod's actor.
type listener struct {
	r    *rig
	name string
}

// Start implements kernel.Behavior.
func (*listener) Start(*kernel.Context[pod.Message]) {}

// Receive implements kernel.Behavior.
func (l *listener) Receive(_ *kernel.Context[pod.Message], m pod.Message) {
	a := m.(pod.VolumesAnswer)
	text := [...]string{"down", "pending", "up", "failed"}[a.Volumes.State]
	if a.Volumes.Going {
		text += ", going"
	}
	if a.Volumes.Unmounted {
		text += ", unmounted"
	}
	if a.Volumes.Message != "" {
		text += ": " + a.Volumes.Message
	}
	if a.Volumes.State == volumeplan.Up {
		for _, p := range a.Paths {
			text += " " + p.Key + "=" + p.Value
		}
	}
	l.r.say("%s: %s", l.name, text)
}

// crasher is the volumes actor, with a crash on order.
type crasher struct {
	kernel.Behavior[volumes.Message]
	r *rig
}

func (c *crasher) Receive(ctx *kernel.Context[volumes.Message], m volumes.Message) {
	if c.r.crash {
		c.r.crash = false
		panic("on order")
	}
	c.Behavior.Receive(ctx, m)
}

// Overflowed implements kernel.OverflowHandler.
func (c *crasher) Overflowed(ctx *kernel.Context[volumes.Message]) {
	c.Behavior.(kernel.OverflowHandler[volumes.Message]).Overflowed(ctx)
}
