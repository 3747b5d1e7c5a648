package podplan

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// Plan decides what to do next for one pod.
//
//	Syncing      observe ─┬─► cgroup ─┬─► sandbox ─┐
//	                      └─► claims ─┘   volumes ─┼─► init 1 ─► init 2 ─► … ─► main, main, …
//	                                      images ──┘   (a sidecar among them lives on)
//	             one container: see drive
//	             all main finished, init failed for good, or too old ─► Done
//
//	Terminating  hooks ─► stop main ─► stop sidecars, last first
//	             ─► stop sandboxes ─► unmount, remove the cgroup, release claims ─► AllDown
//
//	Terminated   stop what the runtime made late
//
// Each call depends only on its input. Input.Busy shows what is under way and Input.View what was
// done, so a lost plan is simply made again.
func Plan(in Input) Output {
	p := planner{in: in, now: in.Now}
	p.index()
	p.out.Crash, p.out.Overdue = in.Crash, in.Overdue
	switch in.Life {
	case podlife.Syncing:
		p.sync()
	case podlife.Terminating:
		p.terminate()
	case podlife.Terminated:
		p.stopLate()
	default:
		panic("podplan: no state " + in.Life.String())
	}
	p.endHooks()
	p.out.Waiting = p.waits.List()
	return p.out
}

// planner holds one plan while it is being made.
type planner struct {
	in  Input // a copy, so that it stays off the heap
	now time.Time
	out Output

	// sandbox is where containers may be made; nil if there is none.
	sandbox *observed.Sandbox
	// epoch is the last exit that asks to restart all containers of the pod. What was created before
	// it counts as never run.
	epoch time.Time
	// epochUnknown is true while there may be a later epoch that isn't known yet.
	epochUnknown bool
	// exitUnknown is true while it isn't known how containers ended, and so whether the pod has
	// finished.
	exitUnknown bool
	// cgroupTooSmall is true while the pod's cgroup has less room than a pending container needs.
	cgroupTooSmall bool
	// holds are what containers wait for that come later in the spec.
	holds holds
	// leaving are the IDs of the containers that are being taken down.
	leaving []string
	// crashOwned is true once out.Crash is a private copy.
	crashOwned bool

	waits smallmap.Many[string, Waiting]
	many
}

// wake asks for another plan at t.
func (p *planner) wake(t time.Time) {
	if p.out.Wake.IsZero() || t.Before(p.out.Wake) {
		p.out.Wake = t
	}
}

// may says whether an action may begin on l: none is under way there, and its backoff is over.
func (p *planner) may(l Lane) bool {
	if _, ok := p.busy(l); ok {
		return false
	}
	f, failed := p.in.Failures[l]
	return !failed || p.due(p.retryAt(f))
}

// due says whether t has come. If not, it asks to be woken then.
func (p *planner) due(t time.Time) bool {
	if p.now.Before(t) {
		p.wake(t)
		return false
	}
	return true
}

// retryAt is when to try again after f. A failure in the future is from before the clock was set
// back: waiting for it could take for ever.
func (p *planner) retryAt(f Failure) time.Time {
	if f.At.After(p.now) {
		return p.now
	}
	return f.At.Add(backoff.Retry(p.in.RetryPolicy, f.Count))
}

// do plans a if its lane lets it, and says whether it did.
func (p *planner) do(a Action) bool {
	if !p.may(a.Lane()) {
		return false
	}
	p.out.Actions = append(p.out.Actions, a)
	return true
}

func (p *planner) note(n Note) { p.out.Notes = append(p.out.Notes, n) }

// conclude ends a Syncing pod and drops everything else that was planned.
func (p *planner) conclude(s podlife.Stop) {
	p.out.Actions, p.out.Notes, p.out.Wake = nil, nil, time.Time{}
	p.lanes, p.indexed, p.stops, p.counted = nil, 0, nil, 0
	s.Ended = true
	p.out.Outcome = Done
	p.out.Stop = &s
}

func (p *planner) setCrash(name string, c backoff.Crash) {
	if old, ok := p.out.Crash[name]; ok && old == c {
		return
	}
	if !p.crashOwned {
		m := make(map[string]backoff.Crash, len(p.in.Crash)+1)
		for k, v := range p.in.Crash {
			m[k] = v
		}
		p.out.Crash, p.crashOwned = m, true
	}
	p.out.Crash[name] = c
}

// newest returns the newest incarnation of a name; nil if there is none.
func (p *planner) newest(name string) *observed.Container {
	cs := p.in.View.Of(name)
	for i := range cs {
		if cs[i].Name == name {
			return &cs[i]
		}
	}
	return nil
}

// lives says whether c runs, or might run.
func (p *planner) lives(c *observed.Container) bool {
	switch c.State {
	case observed.ContainerRunning:
		return true
	case observed.ContainerUnknown:
		_, stopped := p.in.Stopped[c.ID]
		return !stopped
	default:
		return false
	}
}

// fresh says whether c is current: it is in the sandbox in use, and newer than the last restart of
// all containers.
func (p *planner) fresh(c *observed.Container) bool {
	return p.sandbox != nil && c.SandboxID == p.sandbox.ID && !c.CreatedAt.Before(p.epoch)
}

// inspect says whether the details of c are there, and reads them if not.
func (p *planner) inspect(c *observed.Container) bool {
	if c.Detailed {
		return true
	}
	p.do(InspectContainer{Name: c.Name, ID: c.ID})
	return false
}
