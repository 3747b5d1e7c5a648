package volumes_test

import (
	"context"
	"fmt"
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
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/podtest"
)

// rig is the volumes actor alone, on a virtual clock. The rig plays the pods and the host. The host answers a
// call when the test says so.
type rig struct {
	*actortest.Rig
	actor  *actortest.Actor[volumes.Message]
	host   *actortest.Calls
	events actortest.Events
	pods   map[string]kernel.Ref[pod.Message]
	deps   *volumes.Deps
	// last is what was mounted last.
	last port.MountVolume
}

const (
	base     = 500 * time.Millisecond
	deadline = 2 * time.Minute
)

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Rig: actortest.New(t), pods: map[string]kernel.Ref[pod.Message]{}}
	r.host, r.events = r.NewCalls("host"), r.NewEvents()
	r.deps = &volumes.Deps{
		Host: r, Events: r.events, Restarted: func() { r.Say("all: repeat") },
		Backoff: backoff.Policy{Base: base, Max: time.Minute}, Deadline: deadline,
	}
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[volumes.Message]{
		Name: "volumes", Runner: r.Runner(pod.Pools(2, 1)...), Policy: kernel.ForPods, MailboxLimit: 8,
		New: volumes.New(r.deps),
	})
	return r
}

// PreparePod implements volumes.Host.
func (r *rig) PreparePod(ctx context.Context, p *v1.Pod, done func(error)) {
	r.host.Called(ctx, "prepare "+string(p.UID), done)
}

// MountVolume implements volumes.Host.
func (r *rig) MountVolume(ctx context.Context, m port.MountVolume, done func(string, error)) {
	r.last = m
	text := fmt.Sprintf("mount %s/%s", m.Pod.UID, m.Volume.Name)
	if m.Content != nil {
		for _, f := range m.Content.Files {
			text += fmt.Sprintf(" %s=%s", f.Path, f.Data)
		}
	}
	r.host.Called(ctx, text, func(err error) { done("/"+m.Volume.Name, err) })
}

// GrowVolume implements volumes.Host.
func (r *rig) GrowVolume(ctx context.Context, g port.GrowVolume, done func(error)) {
	r.host.Called(ctx, fmt.Sprintf("grow %s for %s", g.Persistent.Name, g.Pod), done)
}

// UnmountPod implements volumes.Host.
func (r *rig) UnmountPod(ctx context.Context, uid types.UID, done func(error)) {
	r.host.Called(ctx, "unmount "+string(uid), done)
}

// mounts is a pod with these volumes: empty directories, but for map, which holds the ConfigMap settings.
func (r *rig) mounts(name, list string) volumes.Mount {
	if _, ok := r.pods[name]; !ok {
		r.pods[name] = actortest.Play(r.Rig, name, func(m pod.Message) { r.told(name, m.(pod.VolumesAnswer)) })
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
	podtest.UseVolumes(&p.Spec)
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

// told writes down what a pod is told.
func (r *rig) told(name string, a pod.VolumesAnswer) {
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
	r.Say("%s: %s", name, text)
}
