package podplan

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// holds is what containers wait for that come after others in the spec: postStart hooks. The API promises no order, but
// people use it: a proxy whose hook waits until it is ready comes before what needs it.
//
// One that fails, and then waits for its next try, holds up nobody. Nor does its next try, if its hook failed or was
// ended in the one before: a container that waits for it has waited for one try.
type holds struct {
	// name is the first container with a hook ahead or under way; empty for none.
	name string
	// tried is when the last try in vain ended, of the one that had it first; zero if one had none.
	tried time.Time
}

// passed notes where a container of the pod stands, for those after it.
func (p *planner) passed(c *v1.Container, got progress) {
	if podspec.PostStart(c) == nil {
		return
	}
	n := p.newest(c.Name)
	switch got {
	case notYet:
	case running:
		if p.fresh(n) && p.in.Hooks[n.ID].PostStart == HookDone {
			return
		}
	case resting, started, finished:
		return
	}
	tried := p.triedInVain(c.Name)
	if p.holds.name == "" {
		p.holds = holds{name: c.Name, tried: tried}
	} else if tried.Before(p.holds.tried) {
		p.holds.tried = tried
	}
}

// triedInVain is when the last incarnation of a name ended whose postStart hook did not succeed; zero for none.
func (p *planner) triedInVain(name string) (at time.Time) {
	cs := p.in.View.Of(name)
	for i := range cs {
		c := &cs[i]
		h := p.in.Hooks[c.ID].PostStart
		if c.Name == name && c.State == observed.ContainerExited && p.fresh(c) && (h == HookFailed || h == HookEnded) &&
			c.FinishedAt.After(at) {
			at = c.FinishedAt
		}
	}
	return at
}

// heldUp says whether the next incarnation of a container waits for the hook of one before it. n is the newest one; nil
// for none. One that was stopped to be restarted does not wait, because the others go on without it meanwhile.
func (p *planner) heldUp(kind podspec.Kind, n *observed.Container) bool {
	switch {
	case p.holds.name == "" || kind == podspec.Ephemeral:
		return false
	case p.holds.tried.IsZero():
		return n == nil || n.State != observed.ContainerExited || !p.killed(n)
	default:
		return n != nil && p.fresh(n) && n.State == observed.ContainerExited && !n.FinishedAt.Before(p.holds.tried) &&
			!p.killed(n)
	}
}

// tried is how a container stands that is being made or started: it rests while the last failure is not over.
func (p *planner) tried(l Lane) progress {
	if _, busy := p.busy(l); busy {
		return notYet
	}
	if _, failed := p.in.Failures[l]; failed {
		return resting
	}
	return notYet
}
