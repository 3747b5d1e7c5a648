package podplan

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/troupe-dev/troupe/actors/decide/gate"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// mainFinished says whether all main containers have finished, or are about to be stopped for good: then the whole pod
// ends, and its sidecars are not restarted meanwhile. why is empty if they have not. It plans only the inspections that
// it needs to tell.
func (p *planner) mainFinished() (why string) {
	all := len(p.in.Pod.Spec.Containers) > 0
	anyMade := false
	for i := range p.in.Pod.Spec.Containers {
		c := &p.in.Pod.Spec.Containers[i]
		anyMade = anyMade || p.newest(c.Name) != nil || p.overUnrecorded(c, podspec.Main)
	}
	// A pod with restart policy Never gets no second sandbox once it had a main container. So a
	// container that was never made there never will be.
	lost := anyMade && p.sandbox == nil && len(p.in.View.Sandboxes) > 0
	unread, leaves := false, false
	for i := range p.in.Pod.Spec.Containers {
		c := &p.in.Pod.Spec.Containers[i]
		n := p.newest(c.Name)
		switch {
		case n == nil && p.overUnrecorded(c, podspec.Main):
		case n == nil || n.State == observed.ContainerCreated:
			_, making := p.busy(Lane{Kind: LaneContainer, Name: c.Name})
			all = all && !making && lost && podspec.RestartPolicy(c, p.in.Pod) == v1.RestartPolicyNever &&
				!p.restartPending(c.Name)
		case n.State == observed.ContainerExited:
			switch {
			case p.inspect(n):
				all = all && !p.restarts(c, podspec.Main, n)
			case alwaysAgain(c, p.in.Pod):
				all = false
			default:
				unread = true
			}
		case n.State == observed.ContainerRunning && p.leaves(c, n):
			leaves = true
		default:
			all = false
		}
	}
	p.exitUnknown = all && unread
	switch {
	case !all || unread:
		return ""
	case leaves:
		return "the last container is stopped, and not restarted"
	default:
		return "all containers have finished"
	}
}

// leaves says whether a running main container is to be stopped, and none follows it. One whose postStart hook failed
// is stopped first, as one that could not be started. A rule on its exit code may restart it.
func (p *planner) leaves(c *v1.Container, n *observed.Container) bool {
	if podspec.RestartPolicy(c, p.in.Pod) != v1.RestartPolicyNever || len(c.RestartPolicyRules) > 0 ||
		p.fromOldEpoch(n) || p.in.Earlier(n) || p.in.Hooks[n.ID].PostStart == HookFailed {
		return false
	}
	_, noted := p.in.RestartNote(n)
	s := p.stopReason(c, podspec.Main, n)
	return s.why != "" && s.cause == "" && !noted
}

// driveMain takes each main container a step further.
func (p *planner) driveMain(initialized bool) {
	for i := range p.in.Pod.Spec.Containers {
		c := &p.in.Pod.Spec.Containers[i]
		p.passed(c, p.drive(c, podspec.Main, initialized))
	}
}

// driveEphemeral starts each ephemeral container once, when its target container runs. Where containers see each
// other's processes anyway, it is enough that the target was made. It does not wait for the init containers.
func (p *planner) driveEphemeral() {
	spec := &p.in.Pod.Spec
	shared := spec.HostPID || ptr.Deref(spec.ShareProcessNamespace, false)
	for i := range spec.EphemeralContainers {
		e := &spec.EphemeralContainers[i]
		c := (*v1.Container)(&e.EphemeralContainerCommon)
		turn := true
		if e.TargetContainerName != "" {
			n := p.newest(e.TargetContainerName)
			turn = n != nil && (shared || n.State == observed.ContainerRunning) && p.fresh(n)
		}
		if !turn && p.newest(c.Name) == nil && !p.overUnrecorded(c, podspec.Ephemeral) {
			w := p.ofPod(gate.Turn)
			if w.Message == "" {
				w.Message = "its target container " + e.TargetContainerName + " does not run"
			}
			p.wait(c.Name, w)
		}
		p.drive(c, podspec.Ephemeral, turn)
	}
}
