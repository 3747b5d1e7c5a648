package mirrors_test

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/apipod"
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/mirrors"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/actortest"
)

// rig is the mirrors actor on a virtual clock. The rig plays the apiserver, pods, apipods, nodestatus and
// status, and writes down what is told and which calls are made.
type rig struct {
	*actortest.Rig
	actor *actortest.Actor[mirrors.Message]
	// err is what the apiserver answers.
	err     error
	answers *actortest.Answers
}

const (
	base     = 2 * time.Second // of the backoff
	deadline = 30 * time.Second
	echo     = 10 * time.Second
	soon     = 10 * time.Millisecond // is enough for a call
)

var node = mirrors.NodeSeen{Node: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node"}}}

// newRig is a node whose actor was told these messages.
func newRig(t *testing.T, messages ...mirrors.Message) *rig {
	t.Helper()
	r := &rig{Rig: actortest.New(t)}
	r.answers = r.NewAnswers()
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[mirrors.Message]{
		Name: "mirrors", MailboxLimit: 3, New: mirrors.New(&mirrors.Deps{
			API: r,
			Object: func(uid types.UID, mirror *v1.Pod, _, restored bool) {
				if restored {
					r.Say("status: %s is mirrored by an older version of %s", uid, mirror.UID)
					return
				}
				r.Say("status: %s is mirrored by %s", uid, mirror.UID)
			},
			Gone:      func(uid, mirror types.UID) { r.Say("status: %s has lost %s", uid, mirror) },
			Restarted: func() { r.Say("all: repeat") },
			Backoff:   backoff.Policy{Base: base, Max: 8 * base}, Deadline: deadline,
		}),
	})
	r.tells(messages...)
	return r
}

// tells sends messages to the actor, one after another.
func (r *rig) tells(messages ...mirrors.Message) {
	for _, m := range messages {
		r.actor.Tell(m)
		r.Settle()
	}
}

// Create implements mirrors.API.
func (r *rig) Create(_ context.Context, o port.APIObject, done func(port.APIObject, error)) {
	p := o.(*v1.Pod)
	r.Say("create %s of %s, owned by %s", p.Name, p.Annotations[podspec.AnnotationMirror], p.OwnerReferences[0].UID)
	err := r.err
	r.answers.Give(func() { done(o, err) })
}

// Delete implements mirrors.API.
func (r *rig) Delete(_ context.Context, d port.APIDelete, done func(error)) {
	if *d.Grace != 0 {
		r.T.Errorf("%s is deleted with a grace period of %d s, want none", d.Key, *d.Grace)
	}
	r.Say("delete %s, if it is %s", d.Key.Name, d.UID)
	err := r.err
	r.answers.Give(func() { done(err) })
}

// statics are all static pods: "web=1" has the name, which is also the UID, and the hash of its manifest.
func statics(pods ...string) mirrors.Statics {
	m := mirrors.Statics{Seen: true}
	for _, s := range pods {
		name, hash, _ := strings.Cut(s, "=")
		m.Pods = append(m.Pods, apipod.StaticPod{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{
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
