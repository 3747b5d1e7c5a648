package simcri

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Adopt copies a pod of another runtime, from that one's Truth: its containers continue to run
// here, with their start times. A script continues from its current time; its random values are
// drawn again.
//
// IDs and image names may be missing in seen: they are generated, or taken from the pod spec. An
// address that is taken, or not in this runtime's prefix, is replaced. Adopt fails, and changes
// nothing, if the runtime already has a part of the pod or one of the IDs, or if a container is
// not in the pod's spec.
func (r *Runtime) Adopt(p *v1.Pod, seen observed.RuntimePod) error {
	var err error
	r.locked(func() { err = r.adopt(p, seen) })
	if err != nil {
		return fmt.Errorf("simcri: adopt pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return nil
}

func (r *Runtime) adopt(p *v1.Pod, seen observed.RuntimePod) error {
	ref := refOf(p)
	if r.pods[podKey(ref)] != nil {
		return fmt.Errorf("there is something of it already")
	}
	specs := make([]*v1.Container, len(seen.Containers))
	for i := range seen.Containers {
		c := &seen.Containers[i]
		if specs[i], _ = podspec.Find(&p.Spec, c.Name); specs[i] == nil {
			return fmt.Errorf("container %q is not in its spec", c.Name)
		}
		if r.sandboxes[c.ID] != nil || r.containers[c.ID] != nil {
			return fmt.Errorf("container ID %s is taken", c.ID)
		}
	}
	if len(seen.Sandboxes) == 0 {
		if len(seen.Containers) > 0 {
			return fmt.Errorf("there are containers and no sandbox")
		}
		return nil
	}
	of := r.podOf(ref)
	// Newest first there, and each goes before those that are here.
	for _, o := range slices.Backward(seen.Sandboxes) {
		r.adoptSandbox(of, p, &o)
	}
	images := make([]*image, len(specs))
	for i := range seen.Containers {
		images[i] = r.adoptImage(seen.Containers[i].ImageRef, specs[i].Image)
	}
	for i := len(specs) - 1; i >= 0; i-- {
		r.adoptContainer(of, specs[i], images[i], &seen.Containers[i])
	}
	return nil
}

func (r *Runtime) adoptSandbox(of *pod, p *v1.Pod, o *observed.Sandbox) {
	s := &sandbox{
		id: o.ID, pod: of, attempt: o.Attempt, createdAt: nanos(o.CreatedAt),
		next: of.sandboxes, state: sandboxNotReady,
	}
	r.keep(s, p, o.RuntimeHandler)
	if s.id == "" || r.sandboxes[s.id] != nil || r.containers[s.id] != nil {
		s.id = r.newID()
	}
	of.sandboxes = s
	r.sandboxes[s.id] = s
	if o.State != observed.SandboxReady {
		return
	}
	s.state = sandboxReady
	for _, text := range o.IPs {
		ip, err := netip.ParseAddr(text)
		if err != nil || p.Spec.HostNetwork || !r.addresses.claim(r.addresses.offset(ip)) {
			continue
		}
		s.address = r.addresses.offset(ip)
		r.located[s.address] = s
		return
	}
	if !r.locate(s, p.Spec.HostNetwork) {
		s.state = sandboxNotReady // its network is gone with the address
	}
}

// claim takes an offset if it is free, and reports whether it was.
func (a *addressPool) claim(offset uint32) bool {
	if a.used == nil {
		a.used = make([]uint64, (a.size+63)/64)
	}
	const firstFree = 2 // before it are the network and its gateway
	if offset < firstFree || offset >= a.size || a.used[offset/64]&(1<<(offset%64)) != 0 {
		return false
	}
	a.used[offset/64] |= 1 << (offset % 64)
	a.taken++
	return true
}

// adoptImage makes a container's image present on the machine.
func (r *Runtime) adoptImage(ref, name string) *image {
	for _, known := range [...]string{ref, name} {
		if img := r.findImage(known); img != nil {
			return img
		}
	}
	full, ok := normalName(name)
	if !ok {
		full = mustName("unknown") // no registry has such an image
	}
	img := newImage(full)
	r.addImage(img)
	return img
}

func (r *Runtime) adoptContainer(of *pod, spec *v1.Container, img *image, o *observed.Container) {
	c := &container{
		id: o.ID, sandbox: of.sandboxes, spec: spec, image: img, attempt: o.Attempt, specHash: o.SpecHash,
		message: o.Message, exitCode: o.ExitCode, state: containerCreated, next: of.containers,
	}
	for s := of.sandboxes; s != nil; s = s.next {
		if s.id == o.SandboxID {
			c.sandbox = s
		}
	}
	if c.id == "" {
		c.id = r.newID()
	}
	of.containers = c
	r.containers[c.id] = c
	if c.createdAt = nanos(o.CreatedAt); c.createdAt == 0 {
		c.createdAt = c.sandbox.createdAt
	}
	if o.State == observed.ContainerCreated {
		return
	}
	c.script = r.base
	if script, err := r.scriptOf(c); err == nil {
		c.script = script
	}
	c.startedAt = nanos(o.StartedAt)
	if i := slices.Index(reasonNames[:], o.Reason); i > 0 {
		c.reason = exitReason(i)
	}
	switch {
	case o.State == observed.ContainerRunning && c.sandbox.state == sandboxReady:
		if c.startedAt == 0 {
			c.startedAt = r.now()
		}
		c.began = r.uptime() - time.Duration(r.now()-c.startedAt)
		c.state, c.exitCode, c.reason = containerRunning, 0, reasonNone
		c.vitals = c.script.Health.sample(r.scr)
		r.play(c)
	default:
		c.state = containerExited
		if c.finishedAt = nanos(o.FinishedAt); c.finishedAt == 0 {
			c.finishedAt = r.now()
		}
	}
}

// nanos is the inverse of timeOf.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
