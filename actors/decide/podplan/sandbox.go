package podplan

import (
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// findSandbox finds the sandbox in use: the newest one, if it is ready and fits
// the pod.
//
//	none ──RunSandbox──► ready ──dies, or doesn't fit──► lost
//	                                                       │ containers stopped,
//	  ready (attempt+1) ◄──RunSandbox── stopped ◄──────────┘ StopSandbox
func (p *planner) findSandbox() {
	if len(p.in.View.Sandboxes) == 0 {
		return
	}
	s := &p.in.View.Sandboxes[0]
	if s.State != observed.SandboxReady || p.in.SandboxStopped[s.ID] || s.Attempt < p.in.FirstSandbox {
		return
	}
	if a, ok := p.in.Busy.Get(Lane{Kind: LaneSandbox}); ok {
		if stop, is := a.(StopSandbox); is && stop.ID == s.ID {
			return
		}
	}
	if s.Detailed && !p.fits(s) {
		return
	}
	p.sandbox = s
}

// fits says whether a ready sandbox can be used. One that has no address lost
// its network; it is replaced, but not in a tight loop if the next has none either.
func (p *planner) fits(s *observed.Sandbox) bool {
	if s.HostNetwork != p.in.Pod.Spec.HostNetwork {
		return false
	}
	return s.HostNetwork || len(s.IPs) > 0 || !p.due(s.CreatedAt.Add(backoff.Retry(p.in.RetryPolicy, int(s.Attempt)+1)))
}

// driveSandbox sees to it that the pod has one sandbox that is ready: old ones
// are emptied and stopped first, then a new one is made.
func (p *planner) driveSandbox() {
	p.stopForeign()
	if p.sandbox == nil && p.undecided {
		return // a pod that has finished needs none
	}
	old := p.stopOldSandboxes()
	if p.sandbox != nil {
		if !p.sandbox.Detailed {
			p.do(InspectSandbox{ID: p.sandbox.ID})
		}
		return
	}
	if p.in.Objects != nil && !p.in.Objects.SandboxKnown(p.in.Pod) {
		return
	}
	if old || p.anyLives() || p.in.Cgroup.Own && p.in.Cgroup.State != podcgroup.Up {
		return
	}
	attempt := p.in.FirstSandbox
	for i := range p.in.View.Sandboxes {
		attempt = max(attempt, p.in.View.Sandboxes[i].Attempt+1)
	}
	if attempt > p.in.FirstSandbox+1 {
		// A sandbox that dies again and again isn't made anew at full speed;
		// one that lived long is.
		last := &p.in.View.Sandboxes[0]
		at := last.CreatedAt
		if !at.After(p.now) && !p.due(at.Add(backoff.Retry(p.in.RetryPolicy, int(last.Attempt)))) {
			return
		}
	}
	p.do(RunSandbox{Attempt: attempt})
}

// stopOldSandboxes stops sandboxes that aren't in use, and says whether any is
// left that was not stopped yet. One in which something lives, or is about to,
// is left alone until that is dead: stopping a sandbox kills without grace.
func (p *planner) stopOldSandboxes() (left bool) {
	for i := range p.in.View.Sandboxes {
		s := &p.in.View.Sandboxes[i]
		if s == p.sandbox || p.in.SandboxStopped[s.ID] {
			continue
		}
		// The network of the newest one is freed even if it is dead; of those
		// before it, that was done before the newest was made.
		if s.State != observed.SandboxReady && i > 0 {
			continue
		}
		left = true
		if p.livesIn(s.ID) || p.makingIn(s.ID) {
			continue
		}
		_, again := p.in.Failures[Lane{Kind: LaneSandbox}]
		if p.do(StopSandbox{ID: s.ID, Why: "sandbox changed"}) && i == 0 && !again && s.Attempt >= p.in.FirstSandbox {
			p.note(Note{Reason: "SandboxChanged", Message: "Pod sandbox changed, it will be killed and re-created."})
		}
	}
	return left
}

// stopForeign stops what lives outside of the sandbox in use and has a name that
// isn't in the spec; the others are stopped where they are driven.
func (p *planner) stopForeign() {
	for i := range p.in.View.Containers {
		c := &p.in.View.Containers[i]
		if p.sandbox != nil && c.SandboxID == p.sandbox.ID || !p.lives(c) {
			continue
		}
		if spec, _ := podspec.Find(&p.in.Pod.Spec, c.Name); spec == nil {
			p.stop(c, nil, p.stopGrace(c, nil), "Stopping container "+c.Name)
		}
	}
}

func (p *planner) livesIn(sandboxID string) bool {
	for i := range p.in.View.Containers {
		c := &p.in.View.Containers[i]
		if c.SandboxID == sandboxID && p.lives(c) {
			return true
		}
	}
	return false
}

// makingIn says whether a container is being made or started in a sandbox.
func (p *planner) makingIn(sandboxID string) bool {
	for _, b := range p.in.Busy {
		switch a := b.Value.(type) {
		case CreateContainer:
			if a.SandboxID == sandboxID {
				return true
			}
		case StartContainer:
			for i := range p.in.View.Containers {
				if c := &p.in.View.Containers[i]; c.ID == a.ID && c.SandboxID == sandboxID {
					return true
				}
			}
		default:
		}
	}
	return false
}

func (p *planner) anyLives() bool {
	for i := range p.in.View.Containers {
		if p.lives(&p.in.View.Containers[i]) {
			return true
		}
	}
	return false
}
