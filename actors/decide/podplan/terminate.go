package podplan

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// terminate plans the end of a pod. Nothing is started.
//
// Hooks run at once in all containers. So do the stops of all but sidecars. A sidecar gets its stop signal when the
// main containers and the sidecars after it in the spec are dead, or when the grace is over; it does not wait for
// ephemeral containers, whose shells ignore SIGTERM. Without a grace period all this takes two seconds.
func (p *planner) terminate() {
	if p.in.Stop == nil {
		panic("podplan: a pod that is Terminating has no Stop")
	}
	if !p.in.Known {
		// A main container that sidecars must wait for may not be known yet.
		p.do(ObservePod{})
		return
	}
	lives := p.stopAll()
	details := p.inspectDead() && (p.in.Stop.Grace <= 0 || !p.lookAgain())
	if lives || p.making() || p.stopSandboxes() {
		p.noteOverdue()
		return
	}
	if !p.in.Volumes.Unmounted && !p.in.Volumes.Going {
		p.do(UnmountVolumes{})
	}
	c := p.in.Cgroup
	if c.Own && !c.Removed && !c.Going {
		p.do(RemoveCgroup{})
	}
	held := p.in.UsesClaims && !p.in.Claims.Is(claims.Released)
	if held && !p.in.Claims.Is(claims.Going) {
		p.do(ReleaseClaims{})
	}
	if !p.in.Volumes.Unmounted || c.Own && !c.Removed || held {
		return
	}
	// A stop call that still hangs is not waited for: its container is dead.
	if details {
		p.out.Outcome = AllDown
	}
}

// stopAll stops all living containers, and says whether there are any.
func (p *planner) stopAll() (lives bool) {
	cs := p.in.View.Containers
	first := false // does anything live that sidecars wait for?
	for i := range cs {
		n := &cs[i]
		if !p.lives(n) {
			continue
		}
		lives = true
		p.inspect(n) // it may have ended by itself
		if c, kind := p.specOf(n.Name); kind != podspec.Sidecar {
			first = first || c != nil && kind == podspec.Main
			p.takeDown(n, c, p.stopEnd(n, c), true, p.stopWhy(n))
		}
	}
	if !lives {
		return false
	}
	list := p.in.Pod.Spec.InitContainers
	wait := first || p.making()
	for i := len(list) - 1; i >= 0; i-- {
		if !podspec.IsSidecar(&list[i]) {
			continue
		}
		any, of := false, p.in.View.Of(list[i].Name)
		for j := range of {
			n := &of[j]
			if n.Name != list[i].Name || !p.lives(n) {
				continue
			}
			any = true
			end := p.stopEnd(n, &list[i])
			signal := !wait || p.due(end.signal)
			p.takeDown(n, &list[i], end, signal, p.stopWhy(n))
		}
		wait = wait || any
	}
	return true
}

// stopLate takes down what appeared after the pod's end, see Facts.Appeared.
func (p *planner) stopLate() {
	ready := func(s observed.Sandbox) bool { return s.State == observed.SandboxReady && !p.in.SandboxStopped[s.ID] }
	lives := func(c observed.Container) bool { return p.lives(&c) }
	v := &p.in.View
	switch {
	case !slices.ContainsFunc(v.Sandboxes, ready) && !slices.ContainsFunc(v.Containers, lives):
	case !p.in.Known:
		p.do(ObservePod{})
	case !p.stopAll():
		p.stopSandboxes()
	}
}

// stopEnd is when a container's grace ends. A container in no spec has the grace recorded when it
// was made, if that is shorter.
func (p *planner) stopEnd(n *observed.Container, c *v1.Container) ending {
	grace := p.in.Stop.Grace
	if !p.specified(c) && n.Detailed {
		grace = min(grace, podspec.Seconds(n.GraceSeconds))
	}
	at := p.in.Stop.At
	if at.After(p.now) {
		at = p.now // the clock was set back since then
	}
	if grace <= 0 {
		return forcedSince(at)
	}
	return endsAt(at.Add(grace))
}

func (p *planner) stopWhy(n *observed.Container) string { return "Stopping container " + n.Name }

// making says whether something is being made or started that would have to be stopped again.
func (p *planner) making() bool {
	for _, b := range p.in.Busy {
		switch b.Value.(type) {
		case CreateContainer, StartContainer, RunSandbox:
			return true
		default:
		}
	}
	return false
}

// maxInspections is how often a dead container is inspected before the pod ends without that
// knowledge.
const maxInspections = 5

// inspectDead reads how the newest incarnations ended, for the final status. It says whether that
// is known, or can't be read.
func (p *planner) inspectDead() bool {
	all := true
	cs := p.in.View.Containers
	for i := range cs {
		n := &cs[i]
		newest := i == 0 || cs[i-1].Name != n.Name
		if !newest || n.State != observed.ContainerExited || n.Detailed {
			continue
		}
		if p.in.Failures[Lane{Kind: LaneInspect, Name: n.ID}].Count >= maxInspections {
			continue
		}
		all = false
		p.inspect(n)
	}
	return all
}

// stopSandboxes stops ready sandboxes. It always stops the newest one, which frees its network. It
// says whether any is left.
func (p *planner) stopSandboxes() (left bool) {
	for i := range p.in.View.Sandboxes {
		s := &p.in.View.Sandboxes[i]
		if p.in.SandboxStopped[s.ID] || s.State != observed.SandboxReady && i > 0 {
			continue
		}
		left = true
		p.do(StopSandbox{ID: s.ID, Why: "pod is terminating"})
	}
	return left
}
