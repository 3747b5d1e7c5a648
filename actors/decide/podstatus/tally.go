package podstatus

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// counts counts the containers of a pod by state.
type counts struct {
	pendingInit    int // regular init containers that have not completed yet
	pendingSidecar int // sidecars that have not started yet
	failedInit     bool

	running, waiting, stopped int
	final                     int // of those stopped: not restarted
	succeeded                 int // of those stopped: with code 0
}

// tally computes the phase from the statuses of the containers. In another sandbox, and when all
// containers are restarted, the init containers run again: until they are through, the pod is Pending
// again.
//
//	failed init, not restarted                → Failed
//	any init pending, any main never started  → Pending
//	any running, or to be restarted           → Running
//	all stopped for good                      → Succeeded, Failed
//
// The kubelet decides by the statuses alone (getPhase). So it says Running between two init containers
// of another sandbox, and while one waits for its next try there.
func (c *computer) tally() v1.PodPhase {
	n := c.count()
	switch {
	case n.failedInit:
		return v1.PodFailed
	case n.pendingInit > 0, n.pendingSidecar > 0, n.waiting > 0:
		return v1.PodPending
	case n.running > 0:
		return v1.PodRunning
	case n.stopped == 0:
		return v1.PodPending
	case c.ending():
	case n.stopped != n.final:
		return v1.PodRunning
	}
	if n.stopped == n.succeeded {
		return v1.PodSucceeded
	}
	return v1.PodFailed
}

// ending says whether nothing of the pod is started again, whatever its policy. A static pod may
// come back with the same UID, so it doesn't count.
func (c *computer) ending() bool { return c.down() && !podspec.Static(c.pod) }

func (c *computer) count() counts {
	var n counts
	through := c.through()
	for i := range c.pod.Spec.InitContainers {
		ct, s := &c.pod.Spec.InitContainers[i], &c.out.InitContainerStatuses[i]
		next := i >= through
		if podspec.IsSidecar(ct) {
			n.sidecar(s, c.alive(s), next, next && c.unmade(ct))
		} else {
			n.init(s, c.again(ct, podspec.InitRestartsAfter), next, next && c.unmade(ct))
		}
	}
	for i := range c.pod.Spec.Containers {
		ct := &c.pod.Spec.Containers[i]
		s := find(c.out.ContainerStatuses, ct.Name)
		n.main(s, c.alive(s), c.again(ct, podspec.RestartsAfter), c.everStarted(s))
	}
	return n
}

// alive says whether a container lives, also while it waits for its postStart hook.
func (c *computer) alive(s *v1.ContainerStatus) bool { return podspec.Lives(&c.pod.Spec, s) }

// through is how many init containers need not be looked at, because a later container was made in the
// sandbox in use: all of them if a main container was.
func (c *computer) through() int {
	inits := c.pod.Spec.InitContainers
	if c.mainMadeHere() {
		return len(inits)
	}
	for i := len(inits) - 1; i > 0; i-- {
		if n, _ := c.newest(inits[i].Name); n != nil && c.madeHere(n) {
			return i
		}
	}
	return 0
}

// unmade says whether a pod that goes on waits for an init container in the sandbox in use: it was not
// made there yet, has not run, or is made again.
func (c *computer) unmade(ct *v1.Container) bool {
	if c.life() != podlife.Syncing || !c.in.Plan.Known {
		return false
	}
	n, _ := c.newest(ct.Name)
	if n == nil || !c.madeHere(n) {
		return true
	}
	if podspec.IsSidecar(ct) {
		return n.State != observed.ContainerRunning
	}
	return n.State != observed.ContainerExited || podspec.InitFailed(n.ExitCode, n.Reason)
}

// everStarted says whether a main container was ever started in this life of the pod.
func (c *computer) everStarted(s *v1.ContainerStatus) bool {
	if c.in.Plan.FirstSandbox > 0 && c.prev.Phase != v1.PodRunning {
		// One that waits for its postStart hook has begun, and is not shown as running yet.
		return s.State.Running != nil || slices.ContainsFunc(c.in.Plan.View.Containers, func(n observed.Container) bool {
			return n.Name == s.Name && n.State != observed.ContainerCreated && n.State != observed.ContainerRunning &&
				!c.in.Plan.Earlier(&n)
		})
	}
	old := find(c.prev.ContainerStatuses, s.Name)
	return started(s) || old != nil && started(old)
}

// again says whether a container that ended with a code is restarted: by its policy and rules,
// because all containers of the pod are restarted, or because it was stopped for that.
func (c *computer) again(
	ct *v1.Container, restarts func(*v1.Container, *v1.Pod, int32) bool,
) func(code int32) bool {
	return func(code int32) bool {
		if restarts(ct, c.pod, code) {
			return true
		}
		n, _ := c.newest(ct.Name)
		if old := find(c.prev.ContainerStatuses, ct.Name); n == nil || old != nil && c.outdated(n, old) {
			return false
		}
		return n.CreatedAt.Before(c.in.Out.Epoch) || c.in.Plan.EndedForRestart(n)
	}
}

// init counts a regular init container. next: nothing was made after it. Otherwise one that was out of memory and ended
// with code 0 has not failed: an older agent went on.
func (n *counts) init(s *v1.ContainerStatus, again func(int32) bool, next, unmade bool) {
	end := ended(s)
	if end != nil && (end.ExitCode != 0 || next && podspec.InitFailed(end.ExitCode, end.Reason)) {
		n.failedInit = n.failedInit || !again(end.ExitCode)
	}
	if end == nil || unmade {
		n.pendingInit++
	}
}

// sidecar counts a sidecar. next: the pod waits for it. Once a container was made after it, its restarts
// hold up nothing.
func (n *counts) sidecar(s *v1.ContainerStatus, alive, next, unmade bool) {
	switch {
	case alive:
		n.running++
		if unmade || next && (s.Started == nil || !*s.Started) {
			n.pendingSidecar++
		}
	case unmade, ended(s) == nil:
		n.pendingSidecar++
	}
}

func (n *counts) main(s *v1.ContainerStatus, alive bool, again func(int32) bool, everStarted bool) {
	end := ended(s)
	switch {
	case s.State.Running != nil:
		n.running++
	case !everStarted:
		n.waiting++
	case alive:
		n.running++
	case end == nil: // it is not known how it ended
		n.stopped++
	default:
		n.stopped++
		if !again(end.ExitCode) {
			n.final++
		}
		if s.State.Terminated != nil && end.ExitCode == 0 {
			n.succeeded++
		}
	}
}

// ended is the last termination of a container that does not run; nil if it runs or never ran.
func ended(s *v1.ContainerStatus) *v1.ContainerStateTerminated {
	switch {
	case s.State.Running != nil:
		return nil
	case s.State.Terminated != nil:
		return s.State.Terminated
	default:
		return s.LastTerminationState.Terminated
	}
}

// mainRan says whether any main container runs or ran.
func (c *computer) mainRan() bool {
	for i := range c.out.ContainerStatuses {
		s := &c.out.ContainerStatuses[i]
		if s.State.Running != nil || ended(s) != nil {
			return true
		}
	}
	return false
}

// mainMadeHere says whether a main container runs, or was made in the newest sandbox. Then the init
// containers are through, and restarting sidecars no longer hold up the phase.
func (c *computer) mainMadeHere() bool {
	for i := range c.pod.Spec.Containers {
		name := c.pod.Spec.Containers[i].Name
		n, _ := c.newest(name)
		if find(c.out.ContainerStatuses, name).State.Running != nil || n != nil && c.madeHere(n) {
			return true
		}
	}
	return !c.in.Plan.Known && c.mainRan()
}

// madeHere says whether n was made in the newest sandbox, and since all containers were last restarted.
func (c *computer) madeHere(n *observed.Container) bool {
	boxes := c.in.Plan.View.Sandboxes
	return (len(boxes) == 0 || n.SandboxID == boxes[0].ID) && !n.CreatedAt.Before(c.in.Out.Epoch)
}

// initialized says whether the pod's init containers were ever complete.
func (c *computer) initialized() bool {
	inits := c.out.InitContainerStatuses
	if len(inits) == 0 || c.mainRan() {
		return true
	}
	last := &inits[len(inits)-1]
	if podspec.IsSidecar(&c.pod.Spec.InitContainers[len(inits)-1]) {
		return last.State.Running != nil && last.Started != nil && *last.Started
	}
	end := ended(last)
	return end != nil && !podspec.InitFailed(end.ExitCode, end.Reason)
}
