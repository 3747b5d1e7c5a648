package podplan

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// mainFinished says whether all main containers have finished. It plans only the inspections that
// it needs to tell.
func (p *planner) mainFinished() bool {
	all := len(p.in.Pod.Spec.Containers) > 0
	anyMade := false
	for i := range p.in.Pod.Spec.Containers {
		c := &p.in.Pod.Spec.Containers[i]
		anyMade = anyMade || p.newest(c.Name) != nil || p.overUnrecorded(c, podspec.Main)
	}
	// A pod with restart policy Never gets no second sandbox once it had a main container. So a
	// container that was never made there never will be.
	lost := anyMade && p.sandbox == nil && len(p.in.View.Sandboxes) > 0
	unread := false
	for i := range p.in.Pod.Spec.Containers {
		c := &p.in.Pod.Spec.Containers[i]
		n := p.newest(c.Name)
		switch {
		case n == nil && p.overUnrecorded(c, podspec.Main):
		case n == nil || n.State == observed.ContainerCreated:
			_, making := p.busy(Lane{Kind: LaneContainer, Name: c.Name})
			all = all && !making && lost && podspec.RestartPolicy(c, p.in.Pod) == v1.RestartPolicyNever && !p.owed(c.Name)
		case n.State == observed.ContainerExited:
			switch {
			case p.inspect(n):
				all = all && !p.restarts(c, podspec.Main, n)
			case podspec.RestartPolicy(c, p.in.Pod) == v1.RestartPolicyAlways:
				all = false
			default:
				unread = true
			}
		default:
			all = false
		}
	}
	p.undecided = all && unread
	return all && !unread
}

// driveMain takes each main container a step further.
func (p *planner) driveMain(initialized bool) {
	for i := range p.in.Pod.Spec.Containers {
		p.drive(&p.in.Pod.Spec.Containers[i], podspec.Main, initialized)
	}
}

// driveEphemeral starts each ephemeral container once, when its target container runs. It does not
// wait for the init containers.
func (p *planner) driveEphemeral() {
	for i := range p.in.Pod.Spec.EphemeralContainers {
		e := &p.in.Pod.Spec.EphemeralContainers[i]
		turn := true
		if e.TargetContainerName != "" {
			n := p.newest(e.TargetContainerName)
			turn = n != nil && n.State == observed.ContainerRunning && p.fresh(n)
		}
		p.drive((*v1.Container)(&e.EphemeralContainerCommon), podspec.Ephemeral, turn)
	}
}
