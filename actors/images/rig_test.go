package images_test

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
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/images"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
)

// rig is the images actor alone, on a virtual clock. The rig plays the pods and the runtime. The runtime answers
// a call when the test says so.
type rig struct {
	*kernel.Virtual
	t   *testing.T
	sys *kernel.System
	ref kernel.Ref[images.Message]
	// said is what others were told and asked, events are those of pods.
	said, events []string
	pods         map[string]kernel.Ref[pod.Message]
	calls        []call
	// has are the images that the runtime has.
	has   map[string]bool
	crash bool
}

// call is one that the runtime has not answered.
type call struct {
	text   string
	answer func(error)
}

const (
	freshFor      = 5 * time.Second
	lookEvery     = 20 * time.Second
	checkDeadline = time.Minute
	pullDeadline  = time.Hour
	base          = 10 * time.Second
	img           = "reg.io/app:1"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{
		t: t, Virtual: kernel.NewVirtual(1, begin), has: map[string]bool{},
		pods: map[string]kernel.Ref[pod.Message]{},
	}
	var err error
	r.sys, err = kernel.NewSystem(kernel.Config{Clock: r.Virtual, Seed: 1})
	r.fatal(err)
	runner, err := kernel.NewRunner(r.sys, kernel.Pool{
		Name: images.PullPool, Size: 2, MinHold: time.Minute, MaxHold: time.Minute,
	})
	r.fatal(err)
	construct := images.New(&images.Deps{
		Runtime: r, Events: r, Restarted: func() { r.say("all: repeat") },
		Backoff:  backoff.Policy{Base: base, Max: 5 * time.Minute},
		FreshFor: freshFor, LookEvery: lookEvery, CheckDeadline: checkDeadline, PullDeadline: pullDeadline,
	})
	r.ref, err = kernel.SpawnRoot(r.sys, kernel.Spec[images.Message]{
		Name: "images", Runner: runner, Policy: kernel.ForPods, MailboxLimit: 8,
		New: func() kernel.Behavior[images.Message] { return &crasher{construct(), r} },
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

// PullImage implements images.Runtime.
func (r *rig) PullImage(_ context.Context, p port.PullImage, done func(string, error)) {
	text := "pull " + p.Image
	if p.Auth != nil {
		text += " as " + p.Auth.Username
	}
	r.called(text, func(err error) {
		if err == nil {
			r.has[p.Image] = true
		}
		done("sha256:"+p.Image, err)
	})
}

// ImageStatus implements images.Runtime.
func (r *rig) ImageStatus(_ context.Context, image string, done func(observed.Image, bool, error)) {
	r.called("look "+image, func(err error) { done(observed.Image{ID: "sha256:" + image}, r.has[image], err) })
}

func (r *rig) called(text string, answer func(error)) {
	r.say("runtime: %s", text)
	r.calls = append(r.calls, call{text, answer})
}

// answers lets the runtime answer the call.
func (r *rig) answers(text string, err error) {
	r.t.Helper()
	r.Settle()
	n := slices.IndexFunc(r.calls, func(c call) bool { return c.text == text })
	if n < 0 {
		r.t.Fatalf("the runtime was not asked: %s", text)
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

// want compares what was said since the last time. The order counts for each listener on its own.
func (r *rig) want(what string, want ...string) {
	r.t.Helper()
	r.Settle()
	compare(r, what, &r.said, want)
}

// wantEvents compares the events since the last time, in the same way.
func (r *rig) wantEvents(what string, want ...string) {
	r.t.Helper()
	r.Settle()
	compare(r, what, &r.events, want)
}

func compare(r *rig, what string, from *[]string, want []string) {
	r.t.Helper()
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

// asks is a pod with one container that wants an image, with what it pulls with.
func (r *rig) asks(name string, policy v1.PullPolicy, secrets ...podobjects.Entry) images.Ensure {
	ref, ok := r.pods[name]
	if !ok {
		var err error
		ref, err = kernel.SpawnRoot(r.sys, kernel.Spec[pod.Message]{
			Name: name, New: func() kernel.Behavior[pod.Message] { return &listener{r, name} },
		})
		r.fatal(err)
		r.pods[name] = ref
	}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	for _, s := range secrets {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: s.Ref.Name})
	}
	return images.Ensure{EnsureImage: pod.EnsureImage{
		Pod: p, Ask: imagepull.Request{Container: "app", Image: img, Policy: policy},
		Objects: podobjects.NewSet(secrets), ReplyTo: ref,
	}}
}

// secret is what is known of the pull secret of that user.
func secret(user string, state podobjects.State) podobjects.Entry {
	e := podobjects.Entry{
		Ref:   podobjects.Ref{Kind: podobjects.Secret, Namespace: "default", Name: "of-" + user},
		State: state,
	}
	if state == podobjects.Found {
		e.Object = &v1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "of-" + user}, Type: v1.SecretTypeDockerConfigJson,
			Data: map[string][]byte{v1.DockerConfigJsonKey: fmt.Appendf(nil,
				`{"auths":{"reg.io":{"username":%q,"password":"p"}}}`, user)},
		}
	}
	return e
}

func refused(kind port.ErrorKind, detail string) error {
	return &port.Error{Kind: kind, Verb: "PullImage", Object: img, Detail: detail}
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
	a := m.(pod.ImageAnswer)
	if a.Image.State == imagepull.Ready {
		l.r.say("%s: %s ready for %d: %s", l.name, a.Container, a.Image.Attempt, a.Info.ID)
		return
	}
	l.r.say("%s: %s waits: %s: %s", l.name, a.Container, a.Image.Reason, a.Image.Message)
}

// crasher is the images actor, with a crash on order.
type crasher struct {
	kernel.Behavior[images.Message]
	r *rig
}

func (c *crasher) Receive(ctx *kernel.Context[images.Message], m images.Message) {
	if c.r.crash {
		c.r.crash = false
		panic("on order")
	}
	c.Behavior.Receive(ctx, m)
}

// Overflowed implements kernel.OverflowHandler.
func (c *crasher) Overflowed(ctx *kernel.Context[images.Message]) {
	c.Behavior.(kernel.OverflowHandler[images.Message]).Overflowed(ctx)
}
