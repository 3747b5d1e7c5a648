package podplan

import (
	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
)

// sync plans for a pod that should run.
func (p *planner) sync() {
	pod := p.in.Pod
	if podspec.Finished(pod) {
		p.conclude(podlife.Stop{At: p.now, Grace: podspec.Grace(pod), Why: "the pod has finished"})
		return
	}
	if p.pastDeadline() {
		p.conclude(podlife.Stop{
			At: p.now, Grace: podspec.Grace(pod), Fail: true,
			Reason:  "DeadlineExceeded",
			Message: "Pod was active on the node longer than the specified deadline",
			Why:     "activeDeadlineSeconds is over",
		})
		return
	}
	if !p.in.Known {
		p.do(ObservePod{})
		p.waitAll()
		return
	}
	p.findSandbox()
	p.findEpoch()
	if why := p.mainFinished(); why != "" {
		p.conclude(podlife.Stop{At: p.now, Grace: podspec.Grace(pod), Why: why})
		return
	}
	p.driveCgroup()
	p.driveClaims()
	p.driveSandbox()
	p.driveResize()
	p.drivePlaces()
	p.driveVolumes()
	initialized, failed := p.driveInit()
	if failed {
		p.conclude(podlife.Stop{At: p.now, Grace: podspec.Grace(pod), Why: "an init container failed"})
		return
	}
	p.driveMain(initialized)
	p.driveEphemeral()
	p.inspectExited()
	p.lookAgain()
}

// pastDeadline says whether activeDeadlineSeconds is over.
func (p *planner) pastDeadline() bool {
	s := p.in.Pod.Spec.ActiveDeadlineSeconds
	if s == nil {
		return false
	}
	start := p.in.StartTime
	if start.IsZero() {
		for i := range p.in.View.Sandboxes {
			s := &p.in.View.Sandboxes[i]
			if t := s.CreatedAt; s.Attempt >= p.in.FirstSandbox && (start.IsZero() || t.Before(start)) {
				start = t
			}
		}
	}
	return !start.IsZero() && p.due(start.Add(podspec.Seconds(*s)))
}

func (p *planner) driveVolumes() {
	if p.in.Volumes.State == volumeplan.Down {
		p.do(MountVolumes{})
	}
}

// driveCgroup makes the pod's cgroup before its first sandbox, and before a new sandbox replaces
// one that this agent found running.
func (p *planner) driveCgroup() {
	c, needed := p.in.Cgroup, p.sandbox == nil && !p.exitUnknown
	if c.Own && (c.State == podcgroup.Down || c.State == podcgroup.Known && needed) {
		p.do(EnsureCgroup{Make: needed})
	}
}

// driveClaims has the pod's claims prepared before its first sandbox. A pod that this agent found running only needs to
// know its devices, for the next container, unless it gets a new sandbox.
func (p *planner) driveClaims() {
	needed := p.sandbox == nil && !p.exitUnknown
	if p.in.UsesClaims && (p.in.Claims.Is(claims.Unasked) || p.in.Claims.Is(claims.Known) && needed) {
		p.do(PrepareClaims{Make: needed})
	}
}

// lookAgain inspects killed containers once more, see Facts.expectOOM. It says whether there are any.
func (p *planner) lookAgain() (any bool) {
	if len(p.in.LookAgain) == 0 {
		return false
	}
	cs := p.in.View.Containers
	for i := range cs {
		if at, is := p.in.LookAgain[cs[i].ID]; is {
			any = true
			if p.due(at) {
				p.do(InspectContainer{Name: cs[i].Name, ID: cs[i].ID})
			}
		}
	}
	return any
}

// inspectExited reads how the newest incarnations and those before them ended. Users see it as
// state and lastState. Nothing waits for it.
func (p *planner) inspectExited() {
	cs := p.in.View.Containers
	for i := range cs {
		third := i >= 2 && cs[i-1].Name == cs[i].Name && cs[i-2].Name == cs[i].Name
		if !third && cs[i].State == observed.ContainerExited {
			p.inspect(&cs[i])
		}
	}
}
