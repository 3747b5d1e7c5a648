package objects_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/objects"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
)

// rig is the objects actor on a virtual clock. The rig plays the apiserver and the actors of pods, which
// use one ConfigMap, and writes down what is told and which calls are made.
type rig struct {
	*kernel.Virtual
	t       *testing.T
	sys     *kernel.System
	ref     kernel.Ref[objects.Message]
	said    []string
	watches []*watch
	// object and err are what the apiserver answers to a Get.
	object *v1.ConfigMap
	err    error
}

type watch struct {
	ctx    context.Context
	change func(port.APIChange)
	ended  func(error)
}

const (
	ttl      = time.Minute
	base     = time.Second // of the backoff
	doubt    = 5 * time.Second
	patience = 30 * time.Second
	soon     = 10 * time.Millisecond // is enough for a call
)

var settings = podobjects.Ref{Kind: podobjects.ConfigMap, Namespace: "default", Name: "settings"}

func newRig(t *testing.T, detection objects.Detection) *rig {
	t.Helper()
	r := &rig{t: t, Virtual: kernel.NewVirtual(1, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	var err error
	if r.sys, err = kernel.NewSystem(kernel.Config{Clock: r.Virtual, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	runner, err := kernel.NewRunner(r.sys, objects.Pools()...)
	if err != nil {
		t.Fatal(err)
	}
	r.ref, err = kernel.SpawnRoot(r.sys, kernel.Spec[objects.Message]{
		Name: "objects", Runner: runner, MailboxLimit: 4, New: objects.New(&objects.Deps{
			API: r, Restarted: func() { r.said = append(r.said, "pods: repeat") }, Detection: detection, TTL: ttl,
			Backoff: backoff.Policy{Base: base, Max: time.Minute}, Doubt: doubt, Deadline: time.Minute, Patience: patience,
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Watch implements portcall.Watcher.
func (r *rig) Watch(ctx context.Context, s port.Selection, change func(port.APIChange), ended func(error)) {
	if s.Kind != port.ConfigMapKind {
		return // of services, which are not looked at here
	}
	r.said = append(r.said, "watch "+s.String())
	r.watches = append(r.watches, &watch{ctx, change, ended})
}

// Get implements objects.API.
func (r *rig) Get(_ context.Context, k port.APIKey, done func(port.APIObject, error)) {
	r.said = append(r.said, "get "+k.String())
	object, err := r.object, r.err
	r.AfterFunc(time.Millisecond, func() { done(object, err) })
}

// CreateToken implements objects.API.
func (r *rig) CreateToken(
	context.Context, string, string, authenticationv1.TokenRequestSpec, func(authenticationv1.TokenRequestStatus, error),
) {
	r.t.Error("a token is asked for, that no pod uses")
}

// user plays the actor of a pod.
type user struct {
	r    *rig
	name string
}

func (*user) Start(*kernel.Context[pod.Message]) {}

func (u *user) Receive(_ *kernel.Context[pod.Message], m pod.Message) {
	e := m.(pod.ObjectsAnswer).Objects.Get(settings)
	line := u.name + ": " + e.State.String()
	if e.State == podobjects.Found {
		line += " " + e.Object.(*v1.ConfigMap).ResourceVersion
	}
	if e.Message != "" {
		line += ", " + e.Message
	}
	u.r.said = append(u.r.said, line)
}

// need is what a new pod asks for.
func (r *rig) need(name string) objects.Need {
	r.t.Helper()
	ref, err := kernel.SpawnRoot(r.sys, kernel.Spec[pod.Message]{
		Name: name, New: func() kernel.Behavior[pod.Message] { return &user{r, name} },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	p.Spec.Containers = []v1.Container{{Name: "app", EnvFrom: []v1.EnvFromSource{{
		ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}},
	}}}}
	return objects.Need{NeedObjects: pod.NeedObjects{Pod: p, ReplyTo: ref}}
}

func (r *rig) tell(changes ...port.APIChange) {
	for _, c := range changes {
		r.watches[len(r.watches)-1].change(c)
		r.Settle()
	}
}

// want lets time pass, and compares what was said since the last time.
func (r *rig) want(what string, d time.Duration, want ...string) {
	r.t.Helper()
	r.Advance(d)
	got := r.said
	r.said = nil
	slices.Sort(got) // actors run side by side
	slices.Sort(want)
	if !slices.Equal(got, want) {
		r.t.Fatalf("%s: was said\n  %s\nwant\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// made is the ConfigMap in one of its versions.
func made(version string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings", UID: "settings", ResourceVersion: version}}
}

func listed(version string) port.APIReplaced {
	return port.APIReplaced{Objects: []port.APIObject{made(version)}}
}

const (
	watchBegun = "watch ConfigMap default/ metadata.name=settings"
	getBegun   = "get ConfigMap default/settings"
)

// TestWatch: pods share one watch from the first to the last, and each is told of each change.
func TestWatch(t *testing.T) {
	r := newRig(t, objects.Watch)
	web := r.need("web")
	r.ref.Tell(web)
	r.want("the first pod", soon, watchBegun, "web: unknown")
	r.tell(listed("1"))
	r.want("the list", soon, "web: found 1")
	r.ref.Tell(r.need("db"))
	r.want("another pod", soon, "db: found 1")
	r.tell(port.APISet{Object: made("2")}, port.APISet{Object: made("2")})
	r.want("a change, told twice", soon, "db: found 2", "web: found 2")
	r.tell(port.APIBroken{Err: errors.New("connection refused")})
	r.want("the apiserver is away: it stays known", time.Hour)
	r.tell(port.APIDeleted{Object: made("2")})
	r.want("it is gone", soon, "db: missing", "web: missing")
	r.ref.Tell(objects.Forget{UID: "web"})
	r.Settle()
	if r.watches[0].ctx.Err() != nil {
		t.Error("the watch ended with the first pod")
	}
	r.ref.Tell(objects.Forget{UID: "db"})
	r.ref.Tell(objects.Forget{UID: "db"})
	r.Settle()
	if r.watches[0].ctx.Err() == nil {
		t.Error("the watch did not end with the last pod")
	}
	r.tell(listed("3"))
	r.want("late", soon)
}

// TestSilentWatch: it is given up for another, and what it says then is late.
func TestSilentWatch(t *testing.T) {
	r := newRig(t, objects.Watch)
	r.ref.Tell(r.need("web"))
	r.want("two watches", patience+soon, watchBegun, watchBegun, "web: unknown")
	r.watches[0].change(listed("1"))
	r.want("late", soon)
	r.tell(listed("2"))
	r.want("the second one", time.Hour, "web: found 2")
}

// TestCache: what is not watched is read once per TTL, and when another pod comes. A failure is tried again
// sooner, and what was found stays known.
func TestCache(t *testing.T) {
	r := newRig(t, objects.Cache)
	r.object = made("1")
	r.ref.Tell(r.need("web"))
	r.want("the first pod", soon, getBegun, "web: unknown", "web: found 1")
	r.object = made("2")
	r.want("within the TTL", ttl-soon)
	r.want("after it", ttl/10+2*soon, getBegun, "web: found 2")
	r.object = made("3")
	r.ref.Tell(r.need("db"))
	r.want("another pod", soon, getBegun, "db: found 2", "db: found 3", "web: found 3")
	r.err = errors.New("connection refused")
	r.want("it fails", ttl+ttl/10-soon, getBegun)
}

// TestDoubt: a pod is told why an object cannot be had, after a while.
func TestDoubt(t *testing.T) {
	r := newRig(t, objects.Watch)
	r.ref.Tell(r.need("web"))
	r.want("the watch", soon, watchBegun, "web: unknown")
	r.tell(port.APIBroken{Err: errors.New("connection refused")})
	r.want("not yet", doubt-2*soon)
	r.want("now", 2*soon, "web: failed, connection refused")
	r.tell(listed("1"))
	r.want("it is there", soon, "web: found 1")
}

// TestOverflow: what was missed is asked for once, after a pause, and everything begins anew.
func TestOverflow(t *testing.T) {
	r := newRig(t, objects.Watch)
	web := r.need("web")
	r.ref.Tell(web)
	r.want("the watch", soon, watchBegun, "web: unknown")
	for range 5 { // the mailbox has room for four
		r.ref.Tell(objects.Forget{UID: "stranger"})
	}
	r.want("the overflow", time.Second, "pods: repeat")
	r.ref.Tell(web)
	r.want("the pod repeats", soon, watchBegun, "web: unknown")
}
