package podplan

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/gate"
	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// findSandbox picks the sandbox in use: the newest one, if it is ready and fits the pod.
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

// fits says whether a ready sandbox can be used. A sandbox without an address lost its network and
// is replaced, with a backoff in case the next one has no address either.
func (p *planner) fits(s *observed.Sandbox) bool {
	if s.HostNetwork != p.in.Pod.Spec.HostNetwork {
		return false
	}
	if s.HostNetwork || len(s.IPs) > 0 {
		return true
	}
	// One made in the future is from before the clock was set back.
	return !s.CreatedAt.After(p.now) && !p.due(s.CreatedAt.Add(backoff.Retry(p.in.RetryPolicy, int(s.Attempt)+1)))
}

// driveSandbox ensures that the pod has one ready sandbox. Old ones are emptied and stopped first,
// then a new one is made.
func (p *planner) driveSandbox() {
	p.stopForeign()
	if p.sandbox == nil && p.exitUnknown {
		return // a finished pod needs none
	}
	old := p.stopOldSandboxes()
	if p.sandbox != nil {
		if !p.sandbox.Detailed {
			p.do(InspectSandbox{ID: p.sandbox.ID})
		}
		return
	}
	if old || p.anyLives() {
		return
	}
	for _, g := range [...]gate.Gate{gate.Cgroup, gate.Claims, gate.Objects} {
		if shut, _, _ := p.look(g, &candidate{}); shut {
			return
		}
	}
	attempt := p.in.FirstSandbox
	for i := range p.in.View.Sandboxes {
		attempt = max(attempt, p.in.View.Sandboxes[i].Attempt+1)
	}
	if attempt > p.in.FirstSandbox+1 {
		// Back off from a sandbox that dies again and again. One that lived long is replaced at once.
		last := &p.in.View.Sandboxes[0]
		at := last.CreatedAt
		if !at.After(p.now) && !p.due(at.Add(backoff.Retry(p.in.RetryPolicy, int(last.Attempt)))) {
			return
		}
	}
	p.do(RunSandbox{Attempt: attempt + p.lostNames(Lane{Kind: LaneSandbox})})
}

// namePatience is for how long a name is asked for that the runtime has, although it shows nothing of that name. A call
// for it that is still under way has ended long before.
const namePatience = 10 * time.Minute

// lostNames is how many names on a lane the runtime has lost: it has them, and shows nothing. It can't be told to give
// them back, so the next number is taken.
func (p *planner) lostNames(l Lane) uint32 {
	since := p.in.Failures[l].Reserved
	if since.IsZero() || since.After(p.now) {
		return 0
	}
	return uint32(p.now.Sub(since) / namePatience)
}

// stopOldSandboxes stops sandboxes that aren't in use, and says whether any is left to stop.
// Stopping a sandbox kills without grace, so it waits until nothing lives or is being made inside.
func (p *planner) stopOldSandboxes() (left bool) {
	for i := range p.in.View.Sandboxes {
		s := &p.in.View.Sandboxes[i]
		if s == p.sandbox || p.in.SandboxStopped[s.ID] {
			continue
		}
		// Stop the newest one even if it is dead, to free its network. The older ones were stopped before
		// it was made.
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

// stopForeign stops containers outside of the sandbox in use whose name isn't in the spec. drive
// stops those whose name is.
func (p *planner) stopForeign() {
	for i := range p.in.View.Containers {
		c := &p.in.View.Containers[i]
		if p.sandbox != nil && c.SandboxID == p.sandbox.ID || !p.lives(c) {
			continue
		}
		if spec, _ := p.specOf(c.Name); spec == nil {
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
			if c := p.byID.Get(a.ID); c != nil && c.SandboxID == sandboxID {
				return true
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
