package podplan

import (
	"encoding/json"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

const (
	// leastGrace is the least grace after a preStop hook used up the rest, so that the container sees
	// the stop signal before the kill.
	leastGrace = 2 * time.Second
	// forcedSignal is what the preStop hook of a container that is stopped by force leaves of podlife.Forced for the
	// stop signal.
	forcedSignal = time.Second
	// earlier is how much earlier another stop call must kill to be worth making.
	earlier = time.Second
)

// ending is how long a container has that is taken down.
type ending struct {
	// signal is until when its preStop hook is waited for, and a sidecar waits for others. kill is when it is killed.
	signal, kill time.Time
	// least is what it has for its stop signal, however late that comes.
	least time.Duration
}

// endsAt is the ending of a container whose grace period is over at a time: the stop signal is on top of it.
func endsAt(at time.Time) ending { return ending{signal: at, kill: at, least: leastGrace} }

// forcedSince is the ending of a container that is stopped by force: it is killed soon, but never without its hook and
// its stop signal.
func forcedSince(at time.Time) ending {
	return ending{signal: at.Add(podlife.Forced - forcedSignal), kill: at.Add(podlife.Forced), least: forcedSignal}
}

// stop takes a living container down while the pod keeps running. The grace counts from the start
// of its preStop hook, or from now.
func (p *planner) stop(n *observed.Container, c *v1.Container, grace time.Duration, why string) {
	grace = max(grace, leastGrace)
	start := p.now
	if h := p.in.Hooks[n.ID]; h.PreStop != HookNotRun && !h.PreStopAt.IsZero() && !h.PreStopAt.After(p.now) {
		start = h.PreStopAt
	}
	p.takeDown(n, c, endsAt(start.Add(grace)), true, why)
}

// takeDown stops a container: first its hook, then the stop signal, then the kill. With signal=false only the hook
// runs.
//
//	           ┌─ preStop ─► done, failed, or end.signal ─┐
//	living ────┤                                          ├─► StopContainer ─► dead
//	           └──────────────── no hook ─────────────────┘    └─ end.kill moved: another, sooner
//
// A preStop hook still running at end.signal runs on during the stop, and dies with its container. A
// postStart hook is ended first.
func (p *planner) takeDown(n *observed.Container, c *v1.Container, end ending, signal bool, why string) {
	p.leaving = append(p.leaving, n.ID)
	left := end.signal.Sub(p.now)
	grace := max(end.kill.Sub(p.now), end.least)
	if s := p.stopsUnderWay(n.ID); s.calls > 0 {
		at, ok := p.in.KillAt[n.ID]
		if !ok {
			// The call is a predecessor's. It kills by then at the latest.
			at = p.now.Add(s.least)
		}
		if p.now.Add(grace).Before(at.Add(-earlier)) {
			p.do(StopContainer{Name: n.Name, ID: n.ID, Grace: grace, N: s.highest + 1, Why: why})
		}
		return
	}
	h := p.in.Hooks[n.ID]
	if left > 0 && n.State == observed.ContainerRunning && !p.hookOver(n, c, h, left, end.signal, why) {
		return
	}
	if !signal || !p.mayStop(n) {
		return
	}
	if p.do(StopContainer{Name: n.Name, ID: n.ID, Grace: grace, Why: why}) && h.PreStop == HookNotRun {
		p.noteKilling(n, why)
	}
}

// hookOver runs the preStop hook, and says whether it has ended.
func (p *planner) hookOver(
	n *observed.Container, c *v1.Container, h Hooks, left time.Duration, end time.Time, why string,
) bool {
	if h.PreStop == HookDone || h.PreStop == HookFailed {
		return true
	}
	handler := p.preStopOf(n, c)
	if handler == nil {
		return p.specified(c) || p.readOrFailed(n, end)
	}
	p.wake(end)
	if h.PreStop == HookNotRun && p.do(RunPreStop{Name: n.Name, ID: n.ID, Handler: handler, Grace: left}) {
		p.noteKilling(n, why)
	}
	return false
}

// endHooks names the running hooks that must be ended.
func (p *planner) endHooks() {
	for _, b := range p.in.Busy {
		if b.Key.Kind != LaneHook {
			continue
		}
		id := b.Key.Name
		_, postStart := b.Value.(RunPostStart)
		if p.in.Known && p.isDead(id) || postStart && slices.Contains(p.leaving, id) {
			p.out.EndHooks = append(p.out.EndHooks, id)
		}
	}
}

// isDead says whether a container has ended or does not exist.
func (p *planner) isDead(id string) bool {
	c := p.byID.Get(id)
	return c == nil || c.State != observed.ContainerCreated && !p.lives(c)
}

// readOrFailed reads the details of a container that is in no spec, above all its preStop hook. It
// says whether they are there, or can't be read in time.
func (p *planner) readOrFailed(n *observed.Container, end time.Time) bool {
	if n.Detailed {
		return true
	}
	if _, failed := p.in.Failures[Lane{Kind: LaneInspect, Name: n.ID}]; failed {
		return true
	}
	p.wake(end)
	return p.inspect(n)
}

// specified says whether a spec says how to stop the container.
func (p *planner) specified(c *v1.Container) bool { return c != nil && p.in.Origin != podspec.Orphan }

// preStopOf is the preStop hook of a container: from the spec, or else as recorded when the
// container was made.
func (p *planner) preStopOf(n *observed.Container, c *v1.Container) *v1.LifecycleHandler {
	if p.specified(c) {
		if c.Lifecycle == nil {
			return nil
		}
		return c.Lifecycle.PreStop
	}
	if n.PreStop == "" {
		return nil
	}
	var h v1.LifecycleHandler
	if json.Unmarshal([]byte(n.PreStop), &h) != nil {
		return nil // unreadable: it was written by another agent
	}
	return &h
}

// stopGrace is the grace of a container that is stopped while its pod keeps running.
func (p *planner) stopGrace(n *observed.Container, c *v1.Container) time.Duration {
	if !p.specified(c) && n.Detailed {
		return podspec.Seconds(n.GraceSeconds)
	}
	return podspec.Grace(p.in.Pod)
}

// mayStop says whether a stop may be asked for now. It waits after a recent failure, and after a
// success that the view may not show yet: for a while, and for an inspection that is under way.
func (p *planner) mayStop(n *observed.Container) bool {
	if again, _ := p.failedStops(n.ID); !p.due(again) {
		return false
	}
	at, worked := p.in.Stopped[n.ID]
	looking := p.underWay(Lane{Kind: LaneInspect, Name: n.ID}) != nil
	if worked && !at.After(p.now) && (!p.due(at.Add(p.in.RetryPolicy.Base)) || looking) {
		p.inspect(n)
		return false
	}
	return true
}

// noteKilling emits one Killing event per stop.
func (p *planner) noteKilling(n *observed.Container, why string) {
	_, failed := p.failedStops(n.ID)
	if _, before := p.in.Stopped[n.ID]; before || failed {
		return
	}
	p.note(Note{Reason: "Killing", Container: n.Name, Message: why})
}
