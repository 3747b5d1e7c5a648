package podstatus

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// phase is the phase that follows from the containers or from Stop.
func (c *computer) phase() v1.PodPhase {
	if podspec.Terminal(c.prev.Phase) {
		return c.prev.Phase
	}
	if podspec.Terminal(c.pod.Status.Phase) {
		return c.pod.Status.Phase
	}
	phase := c.tally()
	if s := c.in.Plan.Stop; s != nil && s.Fail && c.life() != podlife.Syncing {
		if s.ByExit && phase == v1.PodSucceeded {
			return phase
		}
		return v1.PodFailed
	}
	if !podspec.Terminal(phase) && !c.in.Plan.Known && c.prev.Phase != "" {
		phase = c.prev.Phase
	}
	// A static pod that was removed has no status that anybody waits for; one that ends for good while
	// it is wanted has.
	stop := c.in.Plan.Stop
	removed := podspec.Static(c.pod) && (stop == nil || !stop.Ended)
	if c.life() == podlife.Terminated && !podspec.Terminal(phase) && !removed {
		return v1.PodFailed
	}
	return phase
}

// StartsOver says whether a pod that was Running may be shown as Pending again, with these statuses of
// its main containers: its init containers run again, in another sandbox or because all containers
// are restarted. Before that, all main containers have ended.
func StartsOver(pod *v1.Pod, mains []v1.ContainerStatus) bool {
	return len(pod.Spec.InitContainers) > 0 &&
		!slices.ContainsFunc(mains, func(s v1.ContainerStatus) bool { return s.State.Running != nil })
}

// show sets phase, reason and message. A terminal phase is shown only when nothing of the pod runs,
// because others then use its resources.
func (c *computer) show(phase v1.PodPhase) {
	shown := phase
	if podspec.Terminal(phase) && !podspec.Terminal(c.prev.Phase) && !podspec.Terminal(c.pod.Status.Phase) && !c.down() {
		switch shown = c.prev.Phase; {
		case shown != "":
		case c.mainRan():
			shown = v1.PodRunning
		default:
			shown = v1.PodPending
		}
	}
	c.out.Phase = shown
	if shown == c.prev.Phase {
		c.out.Reason, c.out.Message = c.prev.Reason, c.prev.Message
	}
	if shown == c.pod.Status.Phase && c.out.Reason == "" && c.out.Message == "" {
		c.out.Reason, c.out.Message = c.pod.Status.Reason, c.pod.Status.Message
	}
	if s := c.in.Plan.Stop; s != nil && s.Fail && (shown == v1.PodFailed || s.ByExit && shown == v1.PodSucceeded) &&
		!podspec.Terminal(c.prev.Phase) && !podspec.Terminal(c.pod.Status.Phase) {
		c.out.Reason, c.out.Message = s.Reason, s.Message
	}
}

// Down says whether it is certain that nothing of the pod runs. A terminal phase is shown from then on, and the
// scheduler gives to other pods what the pod had.
func Down(plan podplan.Input) bool {
	c := computer{in: Input{Plan: plan}, pod: plan.Pod}
	return c.down()
}

// down says whether it is certain that nothing of the pod runs.
func (c *computer) down() bool {
	switch c.life() {
	case podlife.Terminated:
		return true
	case podlife.Syncing:
		return false
	case podlife.Terminating:
	}
	p := &c.in.Plan
	if !p.Known {
		return false
	}
	for i := range p.View.Containers {
		n := &p.View.Containers[i]
		if c.lives(n) {
			return false
		}
		newest := i == 0 || p.View.Containers[i-1].Name != n.Name
		if newest && n.State == observed.ContainerExited && !n.Detailed {
			return false // its exit determines the phase
		}
	}
	for i := range p.View.Sandboxes {
		s := &p.View.Sandboxes[i]
		if s.State == observed.SandboxReady && !p.SandboxStopped[s.ID] {
			return false
		}
	}
	if p.UsesClaims && !p.Claims.Is(claims.Released) {
		return false // after a terminal phase the cluster gives the devices of its claims to others
	}
	return !c.making()
}

// making says whether a sandbox or container is being made or started.
func (c *computer) making() bool {
	for _, b := range c.in.Plan.Busy {
		if b.Key.Kind == podplan.LaneContainer {
			return true
		}
		if _, is := b.Value.(podplan.RunSandbox); is {
			return true
		}
	}
	return false
}
