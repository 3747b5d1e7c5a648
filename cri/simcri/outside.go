package simcri

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
)

// Actions that no agent can do, for a world or a test. They take no time, and none calls back
// before it returns.

// Kill ends the runtime's process like kill -9: running calls fail with Unavailable and may have
// taken effect (Config.LateEffect), event streams end, and all later calls fail. Containers run
// on.
func (r *Runtime) Kill() {
	r.locked(func() {
		r.down = true
		r.loaded()
		r.inflight.Kill(func(*op) bool { return true }, &port.Error{Kind: port.Unavailable, Detail: "the runtime went away"})
	})
}

// Restart restarts a killed runtime with its state. It can remove containers whose task was lost.
func (r *Runtime) Restart() { r.RestartLoading(0) }

// RestartLoading is Restart, but it answers "server is not initialized yet" (Unavailable) to every
// call during load, while it reads its state.
func (r *Runtime) RestartLoading(load time.Duration) {
	r.locked(func() {
		r.down = false
		r.loaded()
		for _, c := range r.containers {
			if c.state == containerLost {
				c.state = containerUnknown
			}
		}
		if load > 0 {
			r.loading = true
			r.stopLoading = r.after(load, r.loaded)
		}
	})
}

// loaded: the runtime no longer reads its state.
func (r *Runtime) loaded() {
	r.loading = false
	if r.stopLoading != nil {
		r.stopLoading()
		r.stopLoading = nil
	}
}

// LoseTask ends a running container without an event, like the death of its shim. It is in state
// Unknown from now on. Stopping it changes nothing, and neither it nor its sandbox can be removed
// (Stuck) until the runtime restarts.
func (r *Runtime) LoseTask(id string) error {
	var err error
	r.locked(func() {
		c := r.containers[id]
		if c == nil || c.state != containerRunning {
			err = fmt.Errorf("simcri: lose the task of %s: there is no such running container", id)
			return
		}
		r.silently(func() { r.end(c, containerLost, 0, reasonNone, Lost) })
	})
	return err
}

// Vanish removes a container, or a sandbox with its containers, without an event: like a removal by
// hand whose event is lost.
func (r *Runtime) Vanish(id string) error {
	var err error
	r.locked(func() {
		switch c, s := r.containers[id], r.sandboxes[id]; {
		case c != nil:
			r.silently(func() { r.vanish(c) })
		case s != nil:
			r.silently(func() {
				for c := s.pod.containers; c != nil; {
					next := c.next
					if c.sandbox == s && c.state != containerMaking {
						r.vanish(c)
					}
					c = next
				}
				r.stopSandbox(s, false)
				r.dropSandbox(s)
			})
		default:
			err = fmt.Errorf("simcri: vanish %s: there is no such container or sandbox", id)
		}
	})
	return err
}

func (r *Runtime) vanish(c *container) {
	if c.state == containerRunning {
		r.exit(c, exitKilled, reasonError, FromOutside)
	}
	r.removeContainer(c)
}

// silently runs f, whose changes make no events. Config.Observe is told of them.
func (r *Runtime) silently(f func()) {
	r.silent = true
	f()
	r.silent = false
}

// Exit is an end of a container that is caused from outside.
type Exit struct {
	Code      int32 // 137 for SIGKILL
	OOMKilled bool  // then the code is 137
}

// EndContainer ends a running container, like a crash or a kill from outside.
func (r *Runtime) EndContainer(id string, e Exit) error {
	var err error
	r.locked(func() {
		c := r.containers[id]
		switch {
		case c == nil:
			err = fmt.Errorf("simcri: end container %s: no such container", id)
		case c.state != containerRunning:
			err = fmt.Errorf("simcri: end container %s: it is %s", id, c.observedState())
		case e.OOMKilled:
			r.exit(c, exitKilled, reasonOOMKilled, FromOutside)
		default:
			r.exit(c, e.Code, reasonOf(e.Code), FromOutside)
		}
	})
	return err
}

// EndSandbox makes a ready sandbox not ready, like the death of its pause process. Its containers
// run on.
func (r *Runtime) EndSandbox(id string) error {
	var err error
	r.locked(func() {
		s := r.sandboxes[id]
		if s == nil || s.state != sandboxReady {
			err = fmt.Errorf("simcri: end sandbox %s: there is no such ready sandbox", id)
			return
		}
		s.state = sandboxNotReady
		r.freeAddress(s)
		r.sandboxChanged(observed.ContainerStoppedEvent, s, s.pod.ref)
	})
	return err
}

// MakeImagePresent adds an image to the machine without a pull. It panics on an invalid name.
func (r *Runtime) MakeImagePresent(name string, i RegistryImage) {
	img := newImage(mustName(name))
	img.uid, img.user = i.UID, i.Username
	if i.SizeBytes != 0 {
		img.size = i.SizeBytes
	}
	r.locked(func() { r.addImage(img) })
}

// Calls counts the calls of a method.
func (r *Runtime) Calls(m Method) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[m]
}

// Truth is the runtime's whole state at one instant.
type Truth struct {
	At time.Time
	// Runtime has all pods, inspected, in its order.
	Runtime observed.Runtime
	Images  []observed.Image // in order of ID
	// Addresses is the number of assigned IP addresses.
	Addresses int
	// InFlight is the number of running calls, including event streams.
	InFlight int
	// Pulling is the number of running downloads.
	Pulling int
}

// Truth reads the state, in no time and also while the runtime is down.
func (r *Runtime) Truth() Truth {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := Truth{
		At: r.cfg.Clock.Now(), Runtime: r.observe("", true),
		Addresses: r.addresses.taken, InFlight: r.inflight.InFlight(),
	}
	for _, img := range r.listImages() {
		t.Images = append(t.Images, img.observe())
	}
	if r.pulling != nil {
		t.Pulling = len(r.pulling.active)
	}
	return t
}

// Find returns the newest existing incarnation of a container.
func (r *Runtime) Find(uid types.UID, name string) (observed.Container, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.observe(uid, true)
	if len(seen.Pods) == 0 {
		return observed.Container{}, false
	}
	return seen.Pods[0].Newest(name)
}

// Placement is where a container runs.
func (r *Runtime) Placement(id string) cpus.ContainerPlacement {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.containers[id]; c != nil {
		return c.placement
	}
	return cpus.ContainerPlacement{}
}

// Devices are what a container was created with for its devices of device plugins; nil for none.
func (r *Runtime) Devices(id string) *devices.Given {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.containers[id]; c != nil {
		return c.devices
	}
	return nil
}

// Usage is a container's resource usage; ok is false if there is no such container.
func (r *Runtime) Usage(id string) (u Usage, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[id]
	if c == nil {
		return Usage{}, false
	}
	return c.usage(r.ran(c)), true
}
