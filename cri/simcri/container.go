package simcri

import (
	"context"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
)

// CreateContainer implements port.Runtime.
func (r *Runtime) CreateContainer(ctx context.Context, q port.CreateContainer, done func(string, error)) {
	r.createContainer(ctx, q, nil, done)
}

func (r *Runtime) createContainer(
	ctx context.Context, q port.CreateContainer, served *servedContainer, done func(string, error),
) {
	ref := refOf(q.Pod)
	var c *container
	var s *sandbox
	r.begin(ctx,
		Call{Method: CreateContainer, Object: ref.String() + "/" + q.Container.Name, Pod: ref, Container: q.Container.Name,
			Attempt: q.Attempt},
		func(err error) { done("", err) },
		func(o *op) (err *port.Error) {
			if s = r.sandboxes[q.SandboxID]; s == nil {
				return &port.Error{Kind: port.NotFound, Detail: "failed to find sandbox " + q.SandboxID}
			}
			if c, err = r.reserveContainer(s.pod.ref, q.Container, q.Attempt); err != nil {
				return err
			}
			o.Undo = func() { r.deleteContainer(s.pod, c) }
			return nil
		},
		func(o *op) {
			if s.state != sandboxReady {
				o.Refusef(port.StateConflict, "sandbox "+q.SandboxID+" is not running")
				return
			}
			if c.image = r.findImage(q.ImageRef); c.image == nil {
				if c.image = r.findImage(q.Container.Image); c.image == nil {
					o.Refusef(port.ImageNotFound, "failed to resolve image "+q.Container.Image+": not found")
					return
				}
			}
			for i := range q.Mounts {
				if of := q.Mounts[i].Image; of != "" && r.findImage(of) == nil {
					o.Refusef(port.ImageNotFound, "ImageVolumeMountFailed: failed to resolve image "+of+": not found")
					return
				}
			}
			c.id, c.sandbox, c.served = r.newID(), s, served
			c.specHash, c.logDirectory = q.SpecHash, q.LogDirectory
			c.placement, c.devices = q.Placement, q.Devices
			c.createdAt = r.now()
			c.state = containerCreated
			r.containers[c.id] = c
			r.changed(observed.ContainerCreatedEvent, c, s.pod.ref)
			id := c.id
			o.Reply(func() { done(id, nil) })
		})
}

// containerCall describes a call on the container with an ID, with the script's extra start
// latency.
func (r *Runtime) containerCall(m Method, id string) Call {
	call := Call{Method: m, Object: id}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.containers[id]; c != nil {
		call.Pod, call.Container, call.Attempt = c.sandbox.pod.ref, c.spec.Name, c.attempt
	}
	return call
}

// StartContainer implements port.Runtime. A start that fails leaves the
// container exited with 128 and reason StartError, as containerd does.
func (r *Runtime) StartContainer(ctx context.Context, id string, done func(error)) {
	r.begin(ctx, r.containerCall(StartContainer, id), done, nil, func(o *op) {
		c := r.containers[id]
		if err := startable(c); err != nil {
			o.Refuse(err)
			return
		}
		script, err := r.scriptOf(c)
		if err != nil {
			r.failStart(c, err.Error())
			o.Refusef(port.InvalidConfig, err.Error())
			return
		}
		if script.StartLatency.IsZero() {
			r.start(o, c, script, done)
			return
		}
		r.again(o, script.StartLatency.Sample(r.scr), func(o *op) {
			// The state may have changed meanwhile.
			if err := startable(c); err != nil {
				o.Refuse(err)
				return
			}
			r.start(o, c, script, done)
		})
	})
}

func startable(c *container) *port.Error {
	switch {
	case c == nil || c.state == containerGone:
		return &port.Error{Kind: port.NotFound, Detail: "no such container"}
	case c.state != containerCreated:
		return &port.Error{Kind: port.StateConflict, Detail: "the container is " + c.observedState().String()}
	case c.sandbox.state != sandboxReady:
		return &port.Error{Kind: port.StateConflict, Detail: "sandbox " + c.sandbox.id + " is not running"}
	}
	return nil
}

func (r *Runtime) start(o *op, c *container, script *Script, done func(error)) {
	if script.StartError != "" {
		r.failStart(c, script.StartError)
		o.Refusef(port.Other, "failed to start container: "+script.StartError)
		return
	}
	c.state, c.startedAt, c.began, c.script = containerRunning, r.now(), r.uptime(), script
	c.vitals = script.Health.sample(r.scr)
	r.changed(observed.ContainerStartedEvent, c, c.sandbox.pod.ref)
	r.play(c)
	o.Reply(func() { done(nil) })
}

// failStart: Created → Exited.
func (r *Runtime) failStart(c *container, message string) {
	c.state, c.finishedAt = containerExited, r.now()
	c.exitCode, c.reason, c.message, c.cause = exitNotStarted, reasonStartError, message, NeverStarted
	r.changed(observed.ContainerStoppedEvent, c, c.sandbox.pod.ref)
}

// RemoveContainer implements port.Runtime. A running container is killed.
func (r *Runtime) RemoveContainer(ctx context.Context, id string, done func(error)) {
	r.begin(ctx, r.containerCall(RemoveContainer, id), done, nil, func(o *op) {
		if c := r.containers[id]; c != nil {
			if err := removable(c); err != nil {
				o.Refuse(err)
				return
			}
			r.removeContainer(c)
		}
		o.Reply(func() { done(nil) })
	})
}

func removable(c *container) *port.Error {
	if c.state == containerLost {
		return &port.Error{Kind: port.Stuck, Detail: "the task of " + c.id + " is lost"}
	}
	return nil
}

func (r *Runtime) removeContainer(c *container) {
	if c.state == containerRunning {
		r.exit(c, exitKilled, reasonError, WithRemoval)
	}
	p := c.sandbox.pod
	r.deleteContainer(p, c)
	r.changed(observed.ContainerDeletedEvent, c, p.ref)
}

// ContainerStatus implements port.Runtime.
func (r *Runtime) ContainerStatus(ctx context.Context, id string, done func(observed.Container, error)) {
	r.begin(ctx, r.containerCall(ContainerStatus, id),
		func(err error) { done(observed.Container{}, err) }, nil,
		func(o *op) {
			c := r.containers[id]
			if c == nil {
				o.Refusef(port.NotFound, "no such container")
				return
			}
			seen := c.observe(true)
			o.Reply(func() { done(seen, nil) })
		})
}
