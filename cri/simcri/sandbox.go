package simcri

import (
	"context"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
)

// RunPodSandbox implements port.Runtime.
func (r *Runtime) RunPodSandbox(ctx context.Context, q port.RunPodSandbox, done func(string, error)) {
	r.runPodSandbox(ctx, q, false, done)
}

func (r *Runtime) runPodSandbox(ctx context.Context, q port.RunPodSandbox, served bool, done func(string, error)) {
	ref := refOf(q.Pod)
	var s *sandbox
	r.begin(ctx, Call{Method: RunPodSandbox, Object: ref.String(), Pod: ref, Attempt: q.Attempt},
		func(err error) { done("", err) },
		func(o *op) (err *port.Error) {
			if s, err = r.reserveSandbox(ref, q.Attempt); err != nil {
				return err
			}
			o.Undo = func() { r.deleteSandbox(s) }
			return nil
		},
		func(o *op) {
			if !r.locate(s, q.Pod.Spec.HostNetwork) {
				o.Refusef(port.Other, "failed to setup network for sandbox: no IP addresses available in range "+
					r.addresses.prefix.String())
				return
			}
			s.id, s.served = r.newID(), served
			r.keep(s, q.Pod, q.RuntimeHandler)
			s.createdAt = r.now()
			s.state = sandboxReady
			r.sandboxes[s.id] = s
			id := s.id
			if o.Fault.Partial {
				r.freeAddress(s)
				s.state = sandboxNotReady
				r.show(Transition{Kind: observed.ContainerCreatedEvent, Pod: ref, ID: id, Sandbox: id, Attempt: s.attempt})
			} else {
				r.sandboxChanged(observed.ContainerCreatedEvent, s, ref)
				r.sandboxChanged(observed.ContainerStartedEvent, s, ref)
			}
			o.Reply(func() { done(id, nil) })
		})
}

// sandboxCall describes a call on the sandbox with an ID.
func (r *Runtime) sandboxCall(m Method, id string) Call {
	c := Call{Method: m, Object: id}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sandboxes[id]; s != nil {
		c.Pod, c.Attempt = s.pod.ref, s.attempt
	}
	return c
}

// StopPodSandbox implements port.Runtime. It kills the sandbox's containers at once: only
// StopContainer has a grace period.
func (r *Runtime) StopPodSandbox(ctx context.Context, id string, done func(error)) {
	r.begin(ctx, r.sandboxCall(StopPodSandbox, id), done, nil, func(o *op) {
		if s := r.sandboxes[id]; s != nil {
			r.stopSandbox(s, o.Fault.Partial)
		}
		o.Reply(func() { done(nil) })
	})
}

func (r *Runtime) stopSandbox(s *sandbox, containersOnly bool) {
	for c := s.pod.containers; c != nil; c = c.next {
		if c.sandbox == s && c.state == containerRunning {
			r.exit(c, exitKilled, reasonError, WithSandbox)
		}
	}
	if containersOnly || s.state != sandboxReady {
		return
	}
	s.state = sandboxNotReady
	r.freeAddress(s)
	r.sandboxChanged(observed.ContainerStoppedEvent, s, s.pod.ref)
}

// RemovePodSandbox implements port.Runtime. It kills and removes the sandbox's containers too.
func (r *Runtime) RemovePodSandbox(ctx context.Context, id string, done func(error)) {
	r.begin(ctx, r.sandboxCall(RemovePodSandbox, id), done, nil, func(o *op) {
		if s := r.sandboxes[id]; s != nil {
			if err := r.removeSandbox(s, o.Fault.Partial); err != nil {
				o.Refuse(err)
				return
			}
		}
		o.Reply(func() { done(nil) })
	})
}

// removeSandbox removes a sandbox and its containers, unless the task of one is lost.
func (r *Runtime) removeSandbox(s *sandbox, containersOnly bool) (stuck *port.Error) {
	r.stopSandbox(s, containersOnly)
	for c := s.pod.containers; c != nil; {
		next := c.next
		if c.sandbox == s && c.state != containerMaking {
			if err := removable(c); err != nil {
				stuck = err
			} else {
				r.removeContainer(c)
			}
		}
		c = next
	}
	if !containersOnly && stuck == nil {
		r.dropSandbox(s)
	}
	return stuck
}

// dropSandbox removes a sandbox without containers.
func (r *Runtime) dropSandbox(s *sandbox) {
	ref := s.pod.ref
	r.deleteSandbox(s)
	r.sandboxChanged(observed.ContainerDeletedEvent, s, ref)
}

// PodSandboxStatus implements port.Runtime.
func (r *Runtime) PodSandboxStatus(ctx context.Context, id string, done func(observed.Sandbox, error)) {
	r.begin(ctx, r.sandboxCall(PodSandboxStatus, id),
		func(err error) { done(observed.Sandbox{}, err) }, nil,
		func(o *op) {
			s := r.sandboxes[id]
			if s == nil {
				o.Refusef(port.NotFound, "no such sandbox")
				return
			}
			seen := s.observe(r, true)
			o.Reply(func() { done(seen, nil) })
		})
}
