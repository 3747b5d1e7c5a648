package apipods_test

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

	"github.com/troupe-dev/troupe/actors/apipods"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/sources"
)

// rig is the apipods actor on a virtual clock. The rig plays the apiserver, pods, status and mirrors, and
// writes down what each is told.
type rig struct {
	*kernel.Virtual
	t    *testing.T
	ref  kernel.Ref[apipods.Message]
	said []string
	// updates are all that pods was told. watches are those that were begun.
	updates []sources.Update
	watches []*watch
	log     bytes.Buffer
	// crash makes the actor panic at its next message.
	crash bool
}

type watch struct {
	ctx    context.Context
	change func(port.APIChange)
	ended  func(error)
}

const (
	retry    = time.Second
	patience = time.Minute
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newRig(t *testing.T) *rig {
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
	construct := apipods.New(&apipods.Deps{
		API: r, NodeName: "n1", Retry: retry, Patience: patience,
		Update: func(u sources.Update) {
			r.updates = append(r.updates, u)
			line := "pods, from " + string(u.Source) + ":" + names(u.Pods)
			if !u.Seen {
				line += ", not read yet"
			}
			r.say(line)
		},
		Renewed: func(p *v1.Pod) { r.say("pods: renewed " + p.Name + " " + p.ResourceVersion) },
		Object: func(p *v1.Pod, restored bool) {
			line := "status: " + p.Name + " " + p.ResourceVersion
			if restored {
				line += ", restored"
			}
			r.say(line)
		},
		Gone:    func(uid types.UID) { r.say("status: gone " + string(uid)) },
		Mirrors: func(list []*v1.Pod) { r.say("mirrors:" + names(list)) },
	})
	r.ref, err = kernel.SpawnRoot(sys, kernel.Spec[apipods.Message]{
		Name: "apipods", Runner: runner, MailboxLimit: 8,
		New: func() kernel.Behavior[apipods.Message] { return &crasher{construct(), r} },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Settle()
	return r
}

// listed is a rig after the first list.
func listed(t *testing.T, pods ...*v1.Pod) *rig {
	t.Helper()
	r := newRig(t)
	r.tells(all(pods...))
	r.said = nil
	return r
}

func (r *rig) say(line string) { r.said = append(r.said, line) }

// Watch implements portcall.Watcher.
func (r *rig) Watch(ctx context.Context, s port.Selection, change func(port.APIChange), ended func(error)) {
	r.say("watch " + s.String())
	r.watches = append(r.watches, &watch{ctx, change, ended})
}

func (r *rig) watch() *watch { return r.watches[len(r.watches)-1] }

// tells lets the newest watch tell of changes, one after another.
func (r *rig) tells(changes ...port.APIChange) {
	for _, c := range changes {
		r.watch().change(c)
		r.Settle()
	}
}

// want compares what was said since the last time.
func (r *rig) want(what string, want ...string) {
	r.t.Helper()
	r.Settle()
	got := r.said
	r.said = nil
	if !slices.Equal(got, want) {
		r.t.Fatalf("%s: at %v was said\n  %s\nwant\n  %s",
			what, r.Now().Sub(begin), strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// crasher is the actor, with a crash on order.
type crasher struct {
	kernel.Behavior[apipods.Message]
	r *rig
}

func (c *crasher) Receive(ctx *kernel.Context[apipods.Message], m apipods.Message) {
	if c.r.crash {
		c.r.crash = false
		panic("on order")
	}
	c.Behavior.Receive(ctx, m)
}

// Overflowed implements kernel.OverflowHandler.
func (c *crasher) Overflowed(ctx *kernel.Context[apipods.Message]) {
	c.Behavior.(kernel.OverflowHandler[apipods.Message]).Overflowed(ctx)
}

// made is version 5 of a pod, its name also its UID, which runs. changes make it another version.
func made(name string, changes ...func(p *v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name), ResourceVersion: "5", Generation: 1,
		},
		Status: v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}},
	}
	for _, f := range changes {
		f(p)
	}
	return p
}

func version(v string) func(p *v1.Pod) { return func(p *v1.Pod) { p.ResourceVersion = v } }

func uid(uid types.UID) func(p *v1.Pod) { return func(p *v1.Pod) { p.UID = uid } }

// mirror makes the pod one that stands for a static one.
func mirror(p *v1.Pod) { p.Annotations = map[string]string{podspec.AnnotationMirror: "hash"} }

func all(pods ...*v1.Pod) port.APIReplaced {
	var c port.APIReplaced
	for _, p := range pods {
		c.Objects = append(c.Objects, p)
	}
	return c
}

func set(p *v1.Pod) port.APISet { return port.APISet{Object: p} }

func deleted(p *v1.Pod) port.APIDeleted { return port.APIDeleted{Object: p} }

func names(pods []*v1.Pod) (out string) {
	for _, p := range pods {
		out += " " + p.Name
	}
	return out
}
