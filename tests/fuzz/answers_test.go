package fuzz

import (
	"context"
	"testing"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/tests/growth"
)

// FuzzRuntime: whatever a runtime says of a pod, no actor crashes for it, and a plain pod beside it runs.
func FuzzRuntime(f *testing.F) {
	for i := range byte(6) {
		f.Add([]byte{i})
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, honest := New(data), false
		w := node(t, func(n *sim.NodeSpec) {
			n.Configure = func(c *agent.Config) {
				c.Ports.Runtime = &liar{Runtime: c.Ports.Runtime, s: s, honest: &honest, odd: map[string]bool{}}
			}
		})
		w.honest = func() { honest = true }
		w.live(t, s, growth.Base("odd"), nil)
	})
}

// liar is a runtime that says what it likes of the pod odd, and of what is no pod.
type liar struct {
	port.Runtime
	s      *Source
	honest *bool
	// odd are the IDs of the pod's sandboxes and containers.
	odd map[string]bool
}

func (l *liar) lies() bool { return !*l.honest && l.s.IntN(3) == 0 }

// RunPodSandbox implements port.Runtime.
func (l *liar) RunPodSandbox(ctx context.Context, r port.RunPodSandbox, done func(string, error)) {
	l.Runtime.RunPodSandbox(ctx, r, func(id string, err error) {
		l.odd[id] = r.Pod.Name == "odd"
		done(id, err)
	})
}

// CreateContainer implements port.Runtime.
func (l *liar) CreateContainer(ctx context.Context, r port.CreateContainer, done func(string, error)) {
	l.Runtime.CreateContainer(ctx, r, func(id string, err error) {
		l.odd[id] = r.Pod.Name == "odd"
		done(id, err)
	})
}

// PodSandboxStatus implements port.Runtime.
func (l *liar) PodSandboxStatus(ctx context.Context, id string, done func(observed.Sandbox, error)) {
	l.Runtime.PodSandboxStatus(ctx, id, func(is observed.Sandbox, err error) {
		if l.odd[id] && l.lies() {
			l.sandbox(&is)
		}
		done(is, err)
	})
}

// ContainerStatus implements port.Runtime.
func (l *liar) ContainerStatus(ctx context.Context, id string, done func(observed.Container, error)) {
	l.Runtime.ContainerStatus(ctx, id, func(is observed.Container, err error) {
		if l.odd[id] && l.lies() {
			l.container(&is)
		}
		done(is, err)
	})
}

// sandbox and container fill what an adapter reads of an answer. It knows no other states, and no
// addresses that are none.
func (l *liar) sandbox(is *observed.Sandbox) {
	of := is.Pod
	l.s.Fill(is)
	is.Pod, is.State = of, one(l.s, []observed.SandboxState{observed.SandboxReady, observed.SandboxNotReady})
	is.IPs = one(l.s, [][]string{nil, {"10.0.0.1"}, {"10.0.0.1", "10.0.0.2"}, {"fd00::1", "10.0.0.1", "fd00::2"}})
}

func (l *liar) container(is *observed.Container) {
	of := is.Pod
	l.s.Fill(is)
	is.Pod, is.State = of, one(l.s, []observed.ContainerState{
		observed.ContainerCreated, observed.ContainerRunning, observed.ContainerExited, observed.ContainerUnknown,
	})
}

func (l *liar) pod(is *observed.RuntimePod) {
	l.s.Fill(&is.Pod)
	for i := range is.Sandboxes {
		is.Sandboxes[i].Pod = is.Ref
		l.sandbox(&is.Sandboxes[i])
	}
	for i := range is.Containers {
		is.Containers[i].Pod = is.Ref
		l.container(&is.Containers[i])
	}
}

// List implements port.Runtime.
func (l *liar) List(ctx context.Context, uid string, done func(observed.Runtime, error)) {
	l.Runtime.List(ctx, uid, func(all observed.Runtime, err error) {
		if err == nil && l.lies() {
			for i := range all.Pods {
				if p := &all.Pods[i]; p.Ref.Name == "odd" {
					l.pod(p)
				}
			}
			more := observed.RuntimePod{Ref: observed.PodRef{Namespace: "default", Name: "made-up", UID: "made-up"}}
			l.pod(&more)
			all.Pods = append(all.Pods, more)
		}
		done(all, err)
	})
}

// ListImages implements port.Runtime.
func (l *liar) ListImages(ctx context.Context, done func([]observed.Image, error)) {
	l.Runtime.ListImages(ctx, func(all []observed.Image, err error) {
		if err == nil && l.lies() {
			var more []observed.Image
			l.s.Fill(&more)
			all = append(all, more...)
		}
		done(all, err)
	})
}

// Version implements port.Runtime.
func (l *liar) Version(ctx context.Context, done func(port.RuntimeVersion, error)) {
	l.Runtime.Version(ctx, func(is port.RuntimeVersion, err error) {
		if l.lies() {
			l.s.Fill(&is)
		}
		done(is, err)
	})
}

// Status implements port.Runtime.
func (l *liar) Status(ctx context.Context, done func(port.RuntimeStatus, error)) {
	l.Runtime.Status(ctx, func(is port.RuntimeStatus, err error) {
		if l.lies() {
			l.s.Fill(&is.Handlers)
			l.s.Fill(&is.Features)
		}
		done(is, err)
	})
}
