package podstatus

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// counts counts the containers of a pod by state.
type counts struct {
	pendingInit    int // regular init containers that have not ended yet
	pendingSidecar int // sidecars that have not started yet
	failedInit     bool

	running, waiting, stopped int
	final                     int // of those stopped: not restarted
	succeeded                 int // of those stopped: with code 0
}

// tally computes the phase from the statuses of the containers.
//
//	failed init, not restarted                → Failed
//	any init pending, any main never started  → Pending
//	any running, or to be restarted           → Running
//	all stopped for good                      → Succeeded, Failed
func (c *computer) tally() v1.PodPhase {
	n := c.count()
	switch {
	case n.failedInit:
		return v1.PodFailed
	case n.pendingInit > 0, n.pendingSidecar > 0 && !c.mainMadeHere(), n.waiting > 0:
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
	for i := range c.pod.Spec.InitContainers {
		ct, s := &c.pod.Spec.InitContainers[i], &c.out.InitContainerStatuses[i]
		if podspec.IsSidecar(ct) {
			n.sidecar(s)
		} else {
			n.init(s, c.again(ct))
		}
	}
	for i := range c.pod.Spec.Containers {
		n.main(&c.out.ContainerStatuses[i], c.again(&c.pod.Spec.Containers[i]))
	}
	return n
}

// again says whether a container that ended with a code is restarted: by its policy and rules,
// because all containers of the pod are restarted, or because it was stopped for that.
func (c *computer) again(ct *v1.Container) func(code int32) bool {
	return func(code int32) bool {
		if podspec.RestartsAfter(ct, c.pod, code) {
			return true
		}
		n, _ := c.newest(ct.Name)
		if n == nil {
			return false
		}
		return n.CreatedAt.Before(c.in.Out.Epoch) || c.in.Plan.EndedForRestart(n)
	}
}

func (n *counts) init(s *v1.ContainerStatus, again func(int32) bool) {
	end := ended(s)
	switch {
	case end == nil:
		n.pendingInit++
	case end.ExitCode != 0:
		// A retried init container doesn't decide the phase: the main containers wait for it, and are
		// counted.
		n.failedInit = n.failedInit || !again(end.ExitCode)
	}
}

func (n *counts) sidecar(s *v1.ContainerStatus) {
	switch {
	case s.State.Running != nil:
		n.running++
		if s.Started == nil || !*s.Started {
			n.pendingSidecar++
		}
	case ended(s) == nil:
		n.pendingSidecar++
		n.waiting++
	}
}

func (n *counts) main(s *v1.ContainerStatus, again func(int32) bool) {
	end := ended(s)
	switch {
	case s.State.Running != nil:
		n.running++
	case end == nil:
		n.waiting++
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

// mainMadeHere says whether a main container was made in the newest sandbox. Then restarting
// sidecars no longer hold up the phase.
func (c *computer) mainMadeHere() bool {
	boxes := c.in.Plan.View.Sandboxes
	for i := range c.pod.Spec.Containers {
		n, _ := c.newest(c.pod.Spec.Containers[i].Name)
		if n != nil && (len(boxes) == 0 || n.SandboxID == boxes[0].ID) {
			return true
		}
	}
	return !c.in.Plan.Known && c.mainRan()
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
	return end != nil && end.ExitCode == 0
}
