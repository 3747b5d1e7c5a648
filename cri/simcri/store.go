package simcri

import (
	"fmt"
	"path"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
)

// The structs are small because a simulation holds hundreds of thousands: times are Unix
// nanoseconds, fields of the pod's spec stay in the spec, and a container has no map.

// pod is the runtime's state of one pod UID. It exists while it has an object or a reserved name.
type pod struct {
	ref        observed.PodRef
	sandboxes  *sandbox   // newest first
	containers *container // newest first
}

type sandboxState uint8

const (
	sandboxMaking sandboxState = iota // the name is reserved, nothing exists yet
	sandboxReady
	sandboxNotReady
	sandboxGone
)

type sandbox struct {
	id  string // empty while it is made
	pod *pod
	// of are the pod's fields that a runtime keeps. asked is the pod itself if scripts are the
	// caller's: pods are large, and their agent continues with newer versions.
	of        boxed
	asked     *v1.Pod
	createdAt int64
	next      *sandbox
	attempt   uint32
	// address is the offset of the IP in the pool, 0 if it has none.
	// Invariant: != 0 only if the state is ready, and of no other sandbox.
	address uint32
	state   sandboxState
	served  bool // made over gRPC: spec carries the CRI's labels and annotations
}

// boxed are the pod's fields that a sandbox keeps.
type boxed struct {
	labels, annotations map[string]string
	runtimeHandler      string
	// graceSeconds are for its containers without their own.
	graceSeconds int64
	hostNetwork  bool
}

// source is the annotation that an agent gives each sandbox; a served one has those of its caller.
func (s *sandbox) source() string {
	if named, has := s.of.annotations[podspec.AnnotationSource]; has || s.served {
		return named
	}
	return string(podspec.API)
}

func boxedOf(p *v1.Pod, handler string) boxed {
	b := boxed{
		labels: p.Labels, annotations: p.Annotations,
		runtimeHandler: handler, hostNetwork: p.Spec.HostNetwork, graceSeconds: defaultGraceSeconds,
	}
	for _, s := range [...]*int64{p.Spec.TerminationGracePeriodSeconds, p.DeletionGracePeriodSeconds} {
		if s != nil {
			b.graceSeconds = *s
		}
	}
	return b
}

// keep stores the pod's fields that the sandbox needs.
func (r *Runtime) keep(s *sandbox, p *v1.Pod, handler string) {
	s.of = boxedOf(p, handler)
	if r.cfg.Script != nil {
		s.asked = p
	}
}

type containerState uint8

const (
	containerMaking containerState = iota // the name is reserved, nothing exists yet
	containerCreated
	containerRunning
	containerExited
	containerLost    // its task is lost: it cannot be removed
	containerUnknown // its task was lost, and the runtime has restarted since
	containerGone
)

type container struct {
	id      string // empty while it is made
	sandbox *sandbox
	spec    *v1.Container
	image   *image
	// specHash and logDirectory are the caller's strings, kept by reference.
	specHash     string
	logDirectory string
	createdAt    int64
	startedAt    int64         // 0: never started
	began        time.Duration // the runtime's uptime at its start
	finishedAt   int64         // 0: not exited
	message      string
	script       *Script                 // since the start; shared if nothing is special
	live         *live                   // nil if nothing is pending
	placement    cpus.ContainerPlacement // where it runs
	devices      *devices.Given          // what it got for its devices; nil for none
	limits       *observed.Resources     // since they were changed; nil: as created
	vitals       *vitals                 // since the start; nil if it passes every probe
	served       *servedContainer
	next         *container
	attempt      uint32
	exitCode     int32
	state        containerState
	reason       exitReason
	cause        Cause
}

// live is the pending events of a running container.
type live struct {
	stopExit func() bool // the scripted end
	termed   bool        // the stop signal was delivered
	stopTerm func() bool // the end after the stop signal
	// waiters run under the lock when the container has exited, in order.
	waiters []*waiter
}

type waiter struct{ f func() }

type exitReason uint8

const (
	reasonNone exitReason = iota
	reasonCompleted
	reasonError
	reasonOOMKilled
	reasonStartError
)

// The reasons are containerd's.
var reasonNames = [...]string{"", "Completed", "Error", "OOMKilled", "StartError"}

func (p exitReason) String() string { return reasonNames[p] }

// newID makes an ID that no object of this runtime has.
func (r *Runtime) newID() string {
	for {
		id := fmt.Sprintf("%016x", r.ids.Uint64())
		if r.sandboxes[id] == nil && r.containers[id] == nil {
			return id
		}
	}
}

// podKey is the pod's UID, or its name if a caller over gRPC gave no UID.
func podKey(ref observed.PodRef) types.UID {
	if ref.UID == "" {
		return types.UID(ref.String())
	}
	return ref.UID
}

func refOf(p *v1.Pod) observed.PodRef {
	return observed.PodRef{UID: p.UID, Namespace: p.Namespace, Name: p.Name}
}

func (r *Runtime) podOf(ref observed.PodRef) *pod {
	p := r.pods[podKey(ref)]
	if p == nil {
		p = &pod{ref: ref}
		r.pods[podKey(ref)] = p
	}
	return p
}

// forgetIfEmpty keeps the invariant of pod.
func (r *Runtime) forgetIfEmpty(p *pod) {
	if p.sandboxes == nil && p.containers == nil {
		delete(r.pods, podKey(p.ref))
	}
}

// reserveSandbox reserves the name of a sandbox.
func (r *Runtime) reserveSandbox(ref observed.PodRef, attempt uint32) (*sandbox, *port.Error) {
	p := r.podOf(ref)
	for s := p.sandboxes; s != nil; s = s.next {
		if s.attempt == attempt {
			name := fmt.Sprintf("%s_%s_%s_%d", ref.Name, ref.Namespace, ref.UID, attempt)
			return nil, reserved("sandbox", name, s.id)
		}
	}
	s := &sandbox{pod: p, attempt: attempt, next: p.sandboxes}
	p.sandboxes = s
	return s, nil
}

// reserveContainer reserves the name of a container. The name belongs to the pod, not to the
// sandbox, as in containerd.
func (r *Runtime) reserveContainer(ref observed.PodRef, spec *v1.Container, attempt uint32) (*container, *port.Error) {
	p := r.podOf(ref)
	for c := p.containers; c != nil; c = c.next {
		if c.attempt == attempt && c.spec.Name == spec.Name {
			name := fmt.Sprintf("%s_%s_%s_%s_%d", spec.Name, ref.Name, ref.Namespace, ref.UID, attempt)
			return nil, reserved("container", name, c.id)
		}
	}
	c := &container{spec: spec, attempt: attempt, next: p.containers}
	p.containers = c
	return c, nil
}

func reserved(what, name, id string) *port.Error {
	return &port.Error{Kind: port.NameReserved,
		Detail: fmt.Sprintf("failed to reserve %s name %q: name %q is reserved for %q", what, name, name, id)}
}

// deleteSandbox removes s from its pod, and frees its name and address.
func (r *Runtime) deleteSandbox(s *sandbox) {
	r.freeAddress(s)
	s.state = sandboxGone
	for at := &s.pod.sandboxes; *at != nil; at = &(*at).next {
		if *at == s {
			*at = s.next
			break
		}
	}
	if s.id != "" {
		delete(r.sandboxes, s.id)
	}
	r.forgetIfEmpty(s.pod)
}

// deleteContainer removes c from p, and frees its name.
func (r *Runtime) deleteContainer(p *pod, c *container) {
	c.state = containerGone
	for at := &p.containers; *at != nil; at = &(*at).next {
		if *at == c {
			*at = c.next
			break
		}
	}
	if c.id != "" {
		delete(r.containers, c.id)
	}
	r.forgetIfEmpty(p)
}

func timeOf(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// observe converts s for the port; detailed adds the fields of an inspection.
func (s *sandbox) observe(r *Runtime, detailed bool) observed.Sandbox {
	o := observed.Sandbox{
		ID: s.id, Pod: s.pod.ref, Attempt: s.attempt, State: observed.SandboxNotReady,
		CreatedAt: timeOf(s.createdAt), Source: s.source(),
		HostNetwork: detailed && s.of.hostNetwork, Detailed: detailed, RuntimeHandler: s.of.runtimeHandler,
	}
	if s.state == sandboxReady {
		o.State = observed.SandboxReady
	}
	if detailed && s.address != 0 {
		o.IPs = []string{r.addresses.ip(s.address).String()}
	}
	return o
}

func (c *container) observedState() observed.ContainerState {
	switch c.state {
	case containerCreated:
		return observed.ContainerCreated
	case containerRunning:
		return observed.ContainerRunning
	case containerExited:
		return observed.ContainerExited
	case containerLost, containerUnknown:
		return observed.ContainerUnknown
	default:
		panic(fmt.Sprintf("simcri: container %s in state %d is not to be seen", c.id, c.state))
	}
}

// observe converts c for the port; detailed adds the fields of an inspection.
func (c *container) observe(detailed bool) observed.Container {
	o := observed.Container{
		ID: c.id, SandboxID: c.sandbox.id, Pod: c.sandbox.pod.ref, Name: c.spec.Name,
		Attempt: c.attempt, State: c.observedState(), Image: c.spec.Image, ImageRef: c.image.digest,
		SpecHash: c.specHash, CreatedAt: timeOf(c.createdAt), Detailed: detailed,
	}
	if !detailed {
		return o
	}
	o.StartedAt, o.FinishedAt = timeOf(c.startedAt), timeOf(c.finishedAt)
	o.ExitCode, o.Reason, o.Message = c.exitCode, c.reason.String(), c.message
	o.LogPath = c.logPath()
	o.TerminationMessagePolicy = string(c.spec.TerminationMessagePolicy)
	o.GraceSeconds, o.PreStop = c.graceSeconds(), c.preStop()
	if o.Resources = c.limits; o.Resources == nil {
		made := madeWith.ContainerResources(ofNobody, c.spec)
		o.Resources = &made
	}
	o.User = root
	return o
}

// root is the user of every simulated process.
var root = &v1.LinuxContainerUser{SupplementalGroups: []int64{0}}

// madeWith is how a container's limits follow from its spec; ofNobody stands for a
// pod that says nothing of them as a whole.
var (
	madeWith = &podcgroup.Settings{}
	ofNobody = &v1.Pod{}
)

func (c *container) logPath() string {
	if c.served != nil {
		return path.Join(c.logDirectory, c.served.config.GetLogPath())
	}
	return path.Join(c.logDirectory, c.spec.Name, strconv.FormatUint(uint64(c.attempt), 10)+".log")
}
