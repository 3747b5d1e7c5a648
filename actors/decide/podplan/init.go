package podplan

import (
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// driveInit runs the init containers one after the other, in the order of the spec. The next one
// starts when a regular one has succeeded, or when a sidecar has started. A sidecar is kept
// running as long as the pod runs.
//
// Dead init containers may have been removed meanwhile. So what counts is the last one that was
// ever made in the sandbox in use: those before it are complete. If a main container was made
// there, all are.
func (p *planner) driveInit() (initialized, failed bool) {
	list := p.in.Pod.Spec.InitContainers
	if len(list) == 0 {
		return true, false
	}
	through := p.lastInit()
	turn := true
	for i := range list {
		c := &list[i]
		kind := podspec.KindOfInit(c)
		if i < through && kind == podspec.Init {
			// Complete, whatever its state. But none may live on unseen.
			p.stopOlder(c)
			if n := p.newest(c.Name); n != nil && p.lives(n) {
				p.stop(n, c, p.stopGrace(n, c), "Stopping container "+c.Name)
			}
			continue
		}
		got := p.drive(c, kind, turn)
		p.passed(c, got)
		if i < through {
			continue
		}
		switch {
		case kind == podspec.Sidecar && got == started:
		case kind == podspec.Init && got == finished:
			if n := p.newest(c.Name); n.State != observed.ContainerExited ||
				podspec.InitFailed(n.ExitCode, n.Reason) {
				return false, true
			}
		default:
			turn = false
		}
	}
	return turn, false
}

// lastInit is the index of the last init container that was ever made in the sandbox in use; all of
// them if a main container was made there; -1 for none.
func (p *planner) lastInit() int {
	list := p.in.Pod.Spec.InitContainers
	for i := range p.in.Pod.Spec.Containers {
		if n := p.newest(p.in.Pod.Spec.Containers[i].Name); n != nil && p.fresh(n) {
			return len(list)
		}
	}
	for i := len(list) - 1; i >= 0; i-- {
		if n := p.newest(list[i].Name); n != nil && p.fresh(n) {
			return i
		}
	}
	return -1
}
