package mirrors_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/mirrorpods"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/mirrors"
	"github.com/troupe-dev/troupe/actors/port"
)

// rig is the mirrors actor on a virtual clock. The rig plays the apiserver, pods, apipods, nodestatus and
// status, and writes down what is told and which calls are made.
type rig struct {
	*kernel.Virtual
	t    *testing.T
	ref  kernel.Ref[mirrors.Message]
	said []string
	// err is what the apiserver answers. It keeps its answers while it is silent.
	err    error
	silent bool
	late   []func()
	log    bytes.Buffer
	// crash makes the actor panic at its next message.
	crash bool
}

const (
	base     = 2 * time.Second // of the backoff
	deadline = 30 * time.Second
	echo     = 10 * time.Second
	soon     = 10 * time.Millisecond // is enough for a call
)

var (
	begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	node  = mirrors.NodeSeen{Node: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node"}}}
)

// newRig is a node whose actor was told these messages.
func newRig(t *testing.T, messages ...mirrors.Message) *rig {
	t.Helper()
	r := &rig{t: t, Virtual: kernel.NewVirtual(1, begin)}
	sys, err := kernel.NewSystem(kernel.Config{Clock: r.Virtual, Seed: 1, Log: zerolog.New(&r.log)})
	if err != nil {
		t.Fatal(err)
	}
	runner, err := kernel.NewRunner(sys)
	if err != nil {
		t.Fatal(err)
	}
	construct := mirrors.New(&mirrors.Deps{
		API: r,
		Object: func(uid types.UID, mirror *v1.Pod) {
			r.say("status: %s is mirrored by %s", string(uid), string(mirror.UID))
		},
		Gone:      func(uid, mirror types.UID) { r.say("status: %s has lost %s", string(uid), string(mirror)) },
		Restarted: func() { r.say("all: repeat") },
		Backoff:   backoff.Policy{Base: base, Max: 8 * base}, Deadline: deadline,
	})
	r.ref, err = kernel.SpawnRoot(sys, kernel.Spec[mirrors.Message]{
		Name: "mirrors", Runner: runner, MailboxLimit: 3,
		New: func() kernel.Behavior[mirrors.Message] { return &crasher{construct(), r} },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.tells(messages...)
	return r
}

func (r *rig) say(format string, args ...string) {
	for _, a := range args {
		format = strings.Replace(format, "%s", a, 1)
	}
	r.said = append(r.said, format)
}

// tells sends messages to the actor, one after another.
func (r *rig) tells(messages ...mirrors.Message) {
	for _, m := range messages {
		r.ref.Tell(m)
		r.Settle()
	}
}

func (r *rig) answer(f func()) {
	if r.silent {
		r.late = append(r.late, f)
		return
	}
	r.AfterFunc(time.Millisecond, f)
}

// Create implements mirrors.API.
func (r *rig) Create(_ context.Context, o port.APIObject, done func(port.APIObject, error)) {
	p := o.(*v1.Pod)
	r.say("create %s of %s, owned by %s", p.Name, p.Annotations[podspec.AnnotationMirror], string(p.OwnerReferences[0].UID))
	err := r.err
	r.answer(func() { done(o, err) })
}

// Delete implements mirrors.API.
func (r *rig) Delete(_ context.Context, d port.APIDelete, done func(error)) {
	if *d.Grace != 0 {
		r.t.Errorf("%s is deleted with a grace period of %d s, want none", d.Key, *d.Grace)
	}
	r.say("delete %s, if it is %s", d.Key.Name, string(d.UID))
	err := r.err
	r.answer(func() { done(err) })
}

// want lets time pass, and compares what was said since the last time.
func (r *rig) want(what string, d time.Duration, want ...string) {
	r.t.Helper()
	r.Advance(d)
	got := r.said
	r.said = nil
	if !slices.Equal(got, want) {
		r.t.Fatalf("%s: until %v was said\n  %s\nwant\n  %s",
			what, r.Now().Sub(begin), strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// crasher is the actor, with a crash on order.
type crasher struct {
	kernel.Behavior[mirrors.Message]
	r *rig
}

func (c *crasher) Receive(ctx *kernel.Context[mirrors.Message], m mirrors.Message) {
	if c.r.crash {
		c.r.crash = false
		panic("on order")
	}
	c.Behavior.Receive(ctx, m)
}

// Overflowed implements kernel.OverflowHandler.
func (c *crasher) Overflowed(ctx *kernel.Context[mirrors.Message]) {
	c.Behavior.(kernel.OverflowHandler[mirrors.Message]).Overflowed(ctx)
}

// statics are all static pods: "web=1" has the name, which is also the UID, and the hash of its manifest.
func statics(pods ...string) mirrors.Statics {
	m := mirrors.Statics{Seen: true}
	for _, s := range pods {
		name, hash, _ := strings.Cut(s, "=")
		m.Pods = append(m.Pods, mirrorpods.Static{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name), Annotations: map[string]string{podspec.AnnotationHash: hash},
		}}})
	}
	return m
}

// found are all mirror pods, in the same form; the UID is "mirror" and the hash.
func found(pods ...string) mirrors.Found {
	var m mirrors.Found
	for _, s := range pods {
		name, hash, _ := strings.Cut(s, "=")
		m.Mirrors = append(m.Mirrors, &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("mirror" + hash), Annotations: map[string]string{podspec.AnnotationMirror: hash},
		}})
	}
	return m
}
