package podplan

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/gate"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
)

// backedOff counts the end of n, and says whether the next incarnation may be made now.
//
//	ended by itself, or its postStart hook failed   the delay counts from its end
//	stopped while its pod goes on                   no delay, if it was in use for as long as the delay: from the end of
//	                                                the one before it to its own
//
// So a container that lives long enough between two failures of its liveness probe is made again at once each time.
func (p *planner) backedOff(c *v1.Container, n *observed.Container) bool {
	var prev *backoff.Crash
	if m, ok := p.in.Crash[c.Name]; ok {
		prev = &m
	}
	ended := n.FinishedAt
	if ended.IsZero() {
		ended = n.CreatedAt
	}
	var ran time.Duration
	if !n.StartedAt.IsZero() {
		ran = max(ended.Sub(n.StartedAt), 0)
	}
	crash := p.in.CrashPolicy.Next(prev, n.Attempt, ran)
	counted := prev != nil && prev.Attempt == n.Attempt
	note, _ := p.in.RestartNote(n)
	switch {
	case !sameSpec(n.SpecHash, c) || !sameRequest(n.SpecHash, c) || prev == nil && p.resizedSince(n) ||
		note.Cause == podlife.ContainerChanged || note.Cause == podlife.ResizeRestarts || p.in.Earlier(n):
		// A new image, or other limits, get a new chance: their author waits to see it run. A container
		// stopped for a resize, or because its pod was not wanted, did not crash.
		crash = backoff.Crash{Attempt: n.Attempt}
	case !counted && p.killed(n): // once: the record of the one before may go
		before, known := p.endedBefore(n)
		switch {
		case !known:
			return false
		case before.IsZero():
			crash = p.in.CrashPolicy.Spare(prev, n.Attempt)
		default:
			crash.AtOnce = ended.Sub(before) >= crash.Delay
		}
	}
	at := ended.Add(crash.Delay)
	if crash.AtOnce || at.After(p.now.Add(crash.Delay)) {
		at = p.now // or the clock was set back since, so the time that has passed is unknown
	}
	waits := !p.due(at)
	if waits {
		id := podID(p.in.Pod)
		p.setWaiting(c.Name, Waiting{
			Reason: "CrashLoopBackOff", Gate: gate.Backoff,
			Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", crash.Delay, c.Name, id),
		})
		if !crash.Noted {
			crash.Noted = true
			p.note(Note{Warning: true, Reason: "BackOff", Container: c.Name,
				Message: fmt.Sprintf("Back-off restarting failed container %s in pod %s", c.Name, id)})
		}
	}
	p.showHook(n, ended)
	p.setCrash(c.Name, crash)
	return !waits
}

// killed says whether an ended container was stopped while its pod goes on, and did not end by itself. One whose
// postStart hook failed counts as one that did not start. One that was asked to stop may have ended before: the
// runtime was away, for example. If it was asked later than it is now, the clock was set back since, and nothing tells.
func (p *planner) killed(n *observed.Container) bool {
	h := p.in.Hooks[n.ID]
	asked, is := p.in.StopBegan[n.ID]
	if !h.PreStopAt.IsZero() {
		asked, is = h.PreStopAt, true
	}
	before := is && !n.FinishedAt.IsZero() && n.FinishedAt.Before(asked) && !asked.After(p.now)
	if h.PostStart == HookFailed || before {
		return false
	}
	_, stopped := p.in.Stopped[n.ID]
	_, stopping := p.in.KillAt[n.ID]
	_, tried := p.in.Failures[Lane{Kind: LaneStop, Name: n.ID}]
	note, noted := p.in.RestartNote(n)
	return stopped || stopping || tried || h.PreStop != HookNotRun || noted && note.Cause != podlife.PostStartFailed
}

// endedBefore is when the last incarnation before n ended that the runtime has; zero for none. It isn't known before it
// was read.
func (p *planner) endedBefore(n *observed.Container) (at time.Time, known bool) {
	cs := p.in.View.Of(n.Name)
	for i := range cs {
		c := &cs[i]
		if c.Name != n.Name || c.Attempt >= n.Attempt || c.State != observed.ContainerExited {
			continue
		}
		return c.FinishedAt, p.inspect(c)
	}
	return time.Time{}, true
}

// hookShown is how long a container whose postStart hook failed waits for that reason before it waits for the backoff:
// only there the hook's message is shown.
const hookShown = 10 * time.Second

// showHook shows why the postStart hook of an ended container failed.
func (p *planner) showHook(n *observed.Container, ended time.Time) {
	h := p.in.Hooks[n.ID]
	if until := ended.Add(hookShown); h.PostStart == HookFailed && !until.After(p.now.Add(hookShown)) && !p.due(until) {
		p.setWaiting(n.Name, Waiting{Reason: HookError, Message: h.Message, Gate: gate.Backoff})
	}
}

// podID is how messages name a pod: name_namespace(uid).
func podID(pod *v1.Pod) string {
	return pod.Name + "_" + pod.Namespace + "(" + string(pod.UID) + ")"
}
