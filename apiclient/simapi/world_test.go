package simapi

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// streams gives the named random streams of a seed.
func streams(seed uint64) func(string) *rand.Rand {
	return func(stream string) *rand.Rand {
		h := fnv.New64a()
		h.Write([]byte(stream))
		return rand.New(rand.NewPCG(seed, h.Sum64()))
	}
}

// world is a server on a virtual clock.
type world struct {
	testing.TB
	*Server
	v *kernel.Virtual
}

func newWorld(t testing.TB, change func(*Config)) *world {
	t.Helper()
	w := &world{TB: t, v: kernel.NewVirtual(1, epoch)}
	lat := Latencies{}
	for v := range lat {
		lat[v] = simport.Constant(10 * time.Millisecond)
	}
	cfg := Config{Clock: w.v, Rand: streams(1), Latencies: &lat, WatchLag: simport.Constant(time.Millisecond)}
	if change != nil {
		change(&cfg)
	}
	w.Server = check.Value(New(cfg))(t)
	return w
}

func (w *world) created(o port.APIObject) port.APIObject {
	w.Helper()
	return check.Value(w.Create(o))(w)
}

func (w *world) pod(k port.APIKey) *v1.Pod {
	w.Helper()
	return check.Value(w.Get(k))(w).(*v1.Pod)
}

// templateContainers is what the pods of the tests have in common.
var templateContainers = []v1.Container{{Name: "app", Image: "registry.test/app:1"}}

// aPod is a pod of a template, bound to a node if that isn't empty.
func aPod(name, node string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: templateLabels},
		Spec:       v1.PodSpec{NodeName: node, Containers: templateContainers},
	}
}

var templateLabels = map[string]string{"app": "web"}

func podKey(name string) port.APIKey {
	return port.APIKey{Kind: port.PodKind, Namespace: "default", Name: name}
}

// runningStatus is what an agent would say of a pod that runs.
func runningStatus(p *v1.Pod, at metav1.Time, restarts int32) v1.PodStatus {
	started := true
	return v1.PodStatus{
		Phase: v1.PodRunning, ObservedGeneration: p.Generation, QOSClass: p.Status.QOSClass, StartTime: &at,
		HostIP: "192.0.2.1", HostIPs: []v1.HostIP{{IP: "192.0.2.1"}}, PodIP: "10.88.0.7", PodIPs: []v1.PodIP{{IP: "10.88.0.7"}},
		Conditions: []v1.PodCondition{
			{Type: v1.PodReadyToStartContainers, Status: v1.ConditionTrue, LastTransitionTime: at, ObservedGeneration: p.Generation},
			{Type: v1.PodInitialized, Status: v1.ConditionTrue, LastTransitionTime: at, ObservedGeneration: p.Generation},
			{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: at, ObservedGeneration: p.Generation},
			{Type: v1.ContainersReady, Status: v1.ConditionTrue, LastTransitionTime: at, ObservedGeneration: p.Generation},
			{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: at, ObservedGeneration: p.Generation},
		},
		ContainerStatuses: []v1.ContainerStatus{{
			Name: "app", Image: "registry.test/app:1", ImageID: "registry.test/app@sha256:00", ContainerID: "containerd://0123456789abcdef",
			Ready: true, Started: &started, RestartCount: restarts,
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at}},
		}},
	}
}

// withStatus is a copy with another status.
func withStatus(p *v1.Pod, s v1.PodStatus) *v1.Pod {
	next := *p
	next.Status = s
	return &next
}

func (w *world) ending() actortest.Ending { return actortest.NewEnding(w.v) }

// listener is a watch of the port and what it told.
type listener struct {
	w       *world
	ctx     actortest.Ending
	said    []string
	objects map[port.APIKey]port.APIObject
	ended   []error
}

func (w *world) listen(node string, sel port.Selection) *listener {
	l := &listener{w: w, ctx: w.ending(), objects: map[port.APIKey]port.APIObject{}}
	w.Client(node).Watch(l.ctx, sel, l.take, func(err error) { l.ended = append(l.ended, err) })
	return l
}

func (l *listener) take(c port.APIChange) {
	at := l.w.v.Now().Sub(epoch)
	switch c := c.(type) {
	case port.APIReplaced:
		clear(l.objects)
		for _, o := range c.Objects {
			l.objects[port.APIKeyOf(o)] = o
		}
		l.said = append(l.said, fmt.Sprintf("%v replaced %d", at, len(c.Objects)))
	case port.APISet:
		l.objects[port.APIKeyOf(c.Object)] = c.Object
		l.said = append(l.said, fmt.Sprintf("%v set %s@%s", at, c.Object.GetName(), c.Object.GetResourceVersion()))
	case port.APIDeleted:
		delete(l.objects, port.APIKeyOf(c.Object))
		l.said = append(l.said, fmt.Sprintf("%v deleted %s@%s", at, c.Object.GetName(), c.Object.GetResourceVersion()))
	case port.APIBroken:
		l.said = append(l.said, fmt.Sprintf("%v broken %v", at, c.Err))
	}
}

// heard gives what was told since it was asked last.
func (l *listener) heard() []string {
	said := l.said
	l.said = nil
	return said
}

// patient is longer than anything takes.
const patient = 2 * time.Second

func aLease(name string) *coordinationv1.Lease {
	holder, seconds := name, int32(40)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: new(metav1.NewMicroTime(epoch))},
	}
}

func renewed(o port.APIObject, at time.Time) *coordinationv1.Lease {
	next := *o.(*coordinationv1.Lease)
	next.Spec.RenewTime = new(metav1.NewMicroTime(at))
	return &next
}

type lease = coordinationv1.Lease

func leaseOf(o port.APIObject) *lease { return o.(*lease) }
