package simcri

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
)

// What the agent can't do: the world's and a test's hand on the runtime. None
// of these takes time, and none calls back before it returns.

// Kill ends the runtime's process as kill -9 does: every call under way fails
// with Unavailable, having taken effect or not (Config.LateEffect), event
// streams end, and every call from now on fails. Containers run on.
func (r *Runtime) Kill() {
	r.locked(func() {
		r.down = true
		r.inflight.Kill(func(*op) bool { return true }, &port.Error{Kind: port.Unavailable, Detail: "the runtime went away"})
	})
}

// Restart brings a killed runtime back with all that it had.
func (r *Runtime) Restart() {
	r.locked(func() { r.down = false })
}

// Exit is how a container is made to end.
type Exit struct {
	Code      int32 // 137 for SIGKILL
	OOMKilled bool  // then the code is 137
}

// EndContainer ends a running container, as a crash or a kill from outside does.
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
			r.exit(c, exitKilled, reasonOOMKilled)
		default:
			r.exit(c, e.Code, reasonOf(e.Code))
		}
	})
	return err
}

// EndSandbox makes a ready sandbox be not ready, as the death of its pause
// process does. Its containers run on.
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
		r.emit(observed.ContainerStoppedEvent, s.id, s.pod.ref)
	})
	return err
}

// MakeImagePresent puts an image onto the machine without a pull. It panics if
// the name can't be one.
func (r *Runtime) MakeImagePresent(name string, i RegistryImage) {
	img := newImage(mustName(name))
	img.uid, img.user = i.UID, i.Username
	if i.SizeBytes != 0 {
		img.size = i.SizeBytes
	}
	r.locked(func() { r.addImage(img) })
}

// Calls is how often a method was called.
func (r *Runtime) Calls(m Method) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[m]
}

// Truth is all that there is at one instant.
type Truth struct {
	At time.Time
	// Runtime is everything, inspected, in its order.
	Runtime observed.Runtime
	Images  []observed.Image // in order of ID
	// Addresses is how many IP addresses are taken.
	Addresses int
	// InFlight is how many calls have not ended, event streams included.
	InFlight int
	// Pulling is how many images are being downloaded.
	Pulling int
}

// Truth reads all there is, in no time and whether or not the runtime runs.
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

// Find gives the newest incarnation of a container that is there.
func (r *Runtime) Find(uid types.UID, name string) (observed.Container, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.observe(uid, true)
	if len(seen.Pods) == 0 {
		return observed.Container{}, false
	}
	return seen.Pods[0].Newest(name)
}

// Usage is what a container has used; ok is false if there is no such container.
func (r *Runtime) Usage(id string) (u Usage, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[id]
	if c == nil {
		return Usage{}, false
	}
	return c.usage(r.now()), true
}
