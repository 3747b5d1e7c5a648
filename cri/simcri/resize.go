package simcri

import (
	"context"

	"github.com/troupe-dev/troupe/actors/port"
)

// UpdateContainer implements port.Runtime. An exited container cannot be changed. A container
// whose memory exceeds its new limit is OOM-killed.
func (r *Runtime) UpdateContainer(ctx context.Context, q port.UpdateContainer, done func(error)) {
	r.begin(ctx, r.containerCall(UpdateContainer, q.ID), done, nil, func(o *op) {
		c := r.containers[q.ID]
		switch {
		case c == nil:
			o.Refusef(port.NotFound, "no such container")
			return
		case c.state != containerRunning && c.state != containerCreated:
			o.Refusef(port.StateConflict, "the container is "+c.observedState().String())
			return
		}
		if q.Placement != nil {
			c.placement = *q.Placement
			o.Reply(func() { done(nil) })
			return
		}
		limits := q.To
		c.limits = &limits
		if c.state == containerRunning && limits.Memory > 0 && c.usage(r.ran(c)).MemoryBytes >= limits.Memory {
			r.exit(c, exitKilled, reasonOOMKilled, FromOutside)
		}
		o.Reply(func() { done(nil) })
	})
}

// UpdateSandbox implements port.Runtime. It changes nothing.
func (r *Runtime) UpdateSandbox(ctx context.Context, q port.UpdateSandbox, done func(error)) {
	r.begin(ctx, r.sandboxCall(UpdateSandbox, q.ID), done, nil, func(o *op) {
		if r.sandboxes[q.ID] == nil {
			o.Refusef(port.NotFound, "no such sandbox")
			return
		}
		o.Reply(func() { done(nil) })
	})
}

// ContainerMemory implements port.Runtime.
func (r *Runtime) ContainerMemory(ctx context.Context, id string, done func(int64, error)) {
	r.begin(ctx, r.containerCall(ContainerMemory, id), func(err error) { done(0, err) }, nil, func(o *op) {
		c := r.containers[id]
		switch {
		case c == nil:
			o.Refusef(port.NotFound, "no such container")
		case c.state != containerRunning:
			o.Refusef(port.StateConflict, "the container is "+c.observedState().String())
		default:
			used := c.usage(r.ran(c)).MemoryBytes
			o.Reply(func() { done(used, nil) })
		}
	})
}
