package oom

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/oom"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

// rig is the actor alone. The rig plays the machine and podview.
type rig struct {
	*actortest.Rig
	actor *actortest.Actor[Message]
	// tell answers the last Watch; nil: none is under way.
	tell func([]oom.Kill, error)
	// blind: the kernel's log can't be read. dumb: the kernel does not count.
	blind, dumb bool
	counts      oom.Counts
	pods        []*v1.Pod
	mute        bool // podview does not answer
	// watched, asked and counted are how often the machine and podview were asked.
	watched, asked, counted int
}

func (r *rig) Watch(_ context.Context, done func([]oom.Kill, error)) {
	r.watched++
	if r.blind {
		r.Soon(func() { done(nil, &port.Error{Kind: port.Unsupported, Verb: "WatchOOM", Detail: "no such file"}) })
		return
	}
	r.tell = func(k []oom.Kill, err error) { r.tell = nil; done(k, err) }
}

func (r *rig) Count(_ context.Context, pods []*v1.Pod, done func(oom.Counts, error)) {
	if pods != nil {
		r.counted++
	}
	n := oom.Counts{All: r.counts.All, Containers: map[string]uint64{}}
	for _, id := range oom.Running(pods) {
		n.Containers[id] = r.counts.Containers[id]
	}
	r.Soon(func() {
		if r.dumb {
			done(oom.Counts{}, &port.Error{Kind: port.Unsupported, Verb: "CountOOM", Detail: "an old kernel"})
			return
		}
		done(n, nil)
	})
}

func (r *rig) Record(e port.Event) {
	about := e.Node
	if e.Pod != nil {
		about = e.Pod.Name + "/" + e.Container
	}
	r.Say("event: %s %s", about, e.Reason)
}

func newRig(t *testing.T, change func(*rig)) *rig {
	r := &rig{Rig: actortest.New(t), counts: oom.Counts{Containers: map[string]uint64{}}}
	r.pods = []*v1.Pod{runs("web", "c1")}
	change(r)
	d := &Deps{
		NodeName: "n1", Kills: r, Events: r, Deadline: time.Minute,
		Pods: func(reply func([]*v1.Pod)) {
			r.asked++
			list := r.pods
			if !r.mute {
				r.Soon(func() { reply(list) })
			}
		},
	}
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[Message]{Name: "oom", New: New(d)})
	r.Advance(time.Millisecond)
	return r
}

// runs is a pod whose container has this ID.
func runs(name, id string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Status: v1.PodStatus{
		ContainerStatuses: []v1.ContainerStatus{{Name: "app", ContainerID: "x://" + id,
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}},
	}}
}

func TestWatching(t *testing.T) {
	r := newRig(t, func(*rig) {})
	r.tell([]oom.Kill{{PID: 1, Process: "a", Cgroup: "/k/c1", Limit: "/k/c1"}, {PID: 2, Process: "b", Cgroup: "/k/c2", System: true}}, nil)
	r.WantAfter("the node's", 200*time.Millisecond, "event: n1 SystemOOM")
	if r.tell == nil {
		t.Fatal("the kernel is not asked again")
	}
	r.tell([]oom.Kill{{PID: 3, Process: "a", Cgroup: "/k/c1", Limit: "/k/c1"}}, nil)
	r.WantAfter("the pod's", 4*time.Second, "event: web/app OOMKilling")
	for range 50 {
		r.tell([]oom.Kill{{PID: 4, Process: "a", Cgroup: "/k/c1", Limit: "/k/c1"}}, nil)
		r.Advance(time.Second)
	}
	r.WantAfter("soon after that", 3*time.Minute)
	r.WantAfter("in five minutes", 3*time.Minute, "event: web/app OOMKilling")
	r.asked = 0
	r.WantAfter("nothing happens", time.Hour)
	check.AtMost(t, r.asked, 0, "idle, it asked for the pods %d times", r.asked)
}

// TestLostAnswer: podview restarts and loses the question.
func TestLostAnswer(t *testing.T) {
	r := newRig(t, func(r *rig) { r.mute = true })
	r.tell([]oom.Kill{{PID: 1, Process: "a", Cgroup: "/k/c1"}}, nil)
	r.Advance(4 * time.Second)
	r.mute = false
	r.WantAfter("it asks again", 6*time.Second, "event: web/app OOMKilling")
}

func TestFailure(t *testing.T) {
	r := newRig(t, func(*rig) {})
	r.tell(nil, &port.Error{Kind: port.Unavailable, Verb: "WatchOOM"})
	r.Advance(retry - time.Second)
	if r.tell != nil {
		t.Error("it does not wait")
	}
	r.Advance(2 * time.Second)
	if r.tell == nil {
		t.Fatal("it gave up")
	}
	late := r.tell
	r.actor.Crash()
	r.Advance(time.Second)
	late([]oom.Kill{{PID: 2, Process: "b", System: true}}, nil)
	r.Advance(time.Second)
	r.tell([]oom.Kill{{PID: 2, Process: "b", System: true}}, nil)
	r.WantAfter("after a crash", time.Second, "event: n1 SystemOOM")
}

// TestCounting: where the kernel's log can't be read, its counters say that processes were killed.
func TestCounting(t *testing.T) {
	r := newRig(t, func(r *rig) { r.blind, r.counts.All, r.counts.Containers["c1"] = true, 5, 2 })
	r.WantAfter("kills before the start", time.Minute)
	check.Equal(t, r.counted, 1, "without a kill, containers were counted %d times", r.counted)
	r.counts.All, r.counts.Containers["c1"] = 6, 3
	r.WantAfter("a kill", countPeriod+4*time.Second, "event: web/app OOMKilling")
	r.pods = append(r.pods, runs("new", "c2"))
	r.counts.All, r.counts.Containers["c2"] = 7, 1
	r.WantAfter("a kill in a new container", countPeriod+4*time.Second, "event: new/app OOMKilling")
	r.mute = true
	r.counts.All, r.counts.Containers["c2"] = 8, 2
	r.WantAfter("no answer", time.Minute)
	r.mute = false
	r.WantAfter("the answer", quiet, "event: new/app OOMKilling")
	check.Equal(t, r.watched, 1, "the kernel's log was read %d times", r.watched)
}

// quiet is longer than what is quiet after an event.
const quiet = oom.Quiet + time.Minute

// TestNoPods: a node without pods asks for them once in a period at most.
func TestNoPods(t *testing.T) {
	r := newRig(t, func(r *rig) { r.blind, r.pods = true, nil })
	r.Advance(time.Minute)
	check.Equal(t, r.asked, 1, "it asked for the pods %d times", r.asked)
}

func TestBlind(t *testing.T) {
	r := newRig(t, func(r *rig) { r.blind, r.dumb = true, true })
	r.WantAfter("nothing", time.Hour)
	if r.watched != 1 || r.asked != 0 {
		t.Errorf("watched %d times, asked %d times", r.watched, r.asked)
	}
}
