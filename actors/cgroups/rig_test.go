package cgroups_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/cgroups"
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/tests/actortest"
)

// rig is the resources actor alone, on a virtual clock. The rig plays the actors of pods, pods and the cgroups,
// which answer a call when the test says so.
type rig struct {
	*actortest.Rig
	actor  *actortest.Actor[cgroups.Message]
	calls  *actortest.Calls
	events actortest.Events
	pods   map[types.UID]kernel.Ref[pod.Message]
	// cgroups are those of pods, living the pods that pods knows; mute: it does not say now, but with reply.
	cgroups []types.UID
	living  map[types.UID]bool
	mute    bool
	reply   func(map[types.UID]bool)
}

const (
	base     = 500 * time.Millisecond
	deadline = 2 * time.Minute
	period   = time.Minute
	// settled is after when the cgroups of classes have been set at the start, first when a sweep has begun.
	settled = 2 * time.Second
	first   = 10 * time.Second
)

var errNot = errors.New("device busy")

// newRig makes the actor on a node with 4 CPUs and 1000 bytes of memory. Its classes have been set: top, and the
// two of classes without any pods.
func newRig(t *testing.T) *rig {
	t.Helper()
	r := bareRig(t)
	r.Advance(settled)
	r.calls.Answer(nil, "set kubepods: shares 4096, memory 1000")
	r.calls.Answer(nil, "set kubepods/burstable: shares 2")
	r.calls.Answer(nil, "set kubepods/besteffort: shares 2")
	r.Forget()
	return r
}

// bareRig makes it at the moment of its start.
func bareRig(t *testing.T, change ...func(*cgroups.Deps)) *rig {
	t.Helper()
	r := &rig{
		Rig: actortest.New(t), pods: map[types.UID]kernel.Ref[pod.Message]{}, living: map[types.UID]bool{},
	}
	r.calls, r.events = r.NewCalls("cgroups"), r.NewEvents()
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[cgroups.Message]{
		Name: "cgroups", Runner: r.Runner(pod.Pools(2, 1)...), Policy: kernel.ForPods, MailboxLimit: 8,
		New: cgroups.New(changed(cgroups.Deps{
			Cgroups: r, Events: r.events, Restarted: func() { r.Say("all: repeat") },
			Settings: podcgroup.Settings{Capacity: v1.ResourceList{
				v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("1000"),
			}},
			Living: func(reply func(map[types.UID]bool)) {
				r.Say("pods: who lives?")
				if r.reply = reply; !r.mute {
					reply(r.living)
				}
			},
			Backoff: backoff.Policy{Base: base, Max: time.Minute}, Period: period, Deadline: deadline,
		}, change)),
	})
	return r
}

func changed(d cgroups.Deps, change []func(*cgroups.Deps)) *cgroups.Deps {
	for _, c := range change {
		c(&d)
	}
	return &d
}

// Set implements cgroups.Cgroups.
func (r *rig) Set(ctx context.Context, name podcgroup.Name, v podcgroup.Values, done func(error)) {
	text := fmt.Sprintf("set %s: shares %d", strings.Join(name, "/"), v.CPUShares)
	if v.Memory != 0 {
		text += fmt.Sprintf(", memory %d", v.Memory)
	}
	r.calls.Called(ctx, text, done)
}

// RemovePod implements cgroups.Cgroups.
func (r *rig) RemovePod(ctx context.Context, uid types.UID, done func(error)) {
	r.calls.Called(ctx, "remove "+string(uid), func(err error) {
		if err == nil {
			r.cgroups = slices.DeleteFunc(r.cgroups, func(u types.UID) bool { return u == uid })
		}
		done(err)
	})
}

// Pods implements cgroups.Cgroups.
func (r *rig) Pods(ctx context.Context, done func([]types.UID, error)) {
	r.calls.Called(ctx, "list", func(err error) { done(slices.Clone(r.cgroups), err) })
}

// until lets time pass up to so long after the beginning.
func (r *rig) until(d time.Duration) { r.Advance(d - r.Since()) }

// asks is a pod that asks for so much CPU; without any it is BestEffort.
func (r *rig) asks(uid types.UID, cpu string) cgroups.Ensure {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: string(uid), UID: uid}}
	c := v1.Container{Name: "app"}
	if cpu != "" {
		c.Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
	}
	p.Spec.Containers = []v1.Container{c}
	return cgroups.Ensure{EnsureCgroup: pod.EnsureCgroup{Pod: p, Make: true, ReplyTo: r.pod(uid)}}
}

// removes is the end of a pod.
func (r *rig) removes(uid types.UID) cgroups.Remove {
	return cgroups.Remove{RemoveCgroup: pod.RemoveCgroup{UID: uid, ReplyTo: r.pod(uid)}}
}

func (r *rig) pod(uid types.UID) kernel.Ref[pod.Message] {
	if _, ok := r.pods[uid]; !ok {
		r.pods[uid] = actortest.Play(r.Rig, "pod-"+string(uid), func(m pod.Message) { r.told(uid, m.(pod.CgroupAnswer)) })
	}
	return r.pods[uid]
}

// told writes down what a pod is told.
func (r *rig) told(uid types.UID, a pod.CgroupAnswer) {
	c := a.Cgroup
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
	r.Say("%s: %s", uid, text)
}
