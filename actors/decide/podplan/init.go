package podplan

import (
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// driveInit takes the init containers further: one after the other in the
// order of the spec, each when the one before is through. A regular one is
// through when it has ended with code 0; a sidecar when it has started, and
// from then on it is kept running for as long as the pod runs.
//
// Dead init containers may have been removed meanwhile. So what counts is the
// last one that was ever made in the sandbox in use: those before it are
// through; and if a main container was made there, all are.
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
			// Behind us, whatever it shows; but nothing may live on in the dark.
			p.stopOlder(c)
			if n := p.newest(c.Name); n != nil && p.lives(n) {
				p.stop(n, c, p.stopGrace(n, c), "Stopping container "+c.Name)
			}
			continue
		}
		got := p.drive(c, kind, turn)
		if i < through {
			continue
		}
		switch {
		case kind == podspec.Sidecar && got == started:
		case kind == podspec.Init && got == finished:
			if n := p.newest(c.Name); n.State != observed.ContainerExited || n.ExitCode != 0 {
				return false, true
			}
		default:
			turn = false
		}
	}
	return turn, false
}

// lastInit is the index of the last init container that was ever made in the
// sandbox in use; all of them if a main container was made there; -1 for none.
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
