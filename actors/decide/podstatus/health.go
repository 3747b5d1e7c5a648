package podstatus

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/probe"
)

// health fills started and ready.
func (c *computer) health(
	s *v1.ContainerStatus, ct *v1.Container, kind podspec.Kind, n *observed.Container, old *v1.ContainerStatus,
) {
	if kind == podspec.Ephemeral {
		return
	}
	live := n != nil && n.State == observed.ContainerRunning && s.State.Running != nil
	same := live && old.State.Running != nil && old.ContainerID == s.ContainerID
	started := live && c.started(ct, n, same && old.Started != nil && *old.Started)
	s.Started = old.Started
	if s.Started == nil || *s.Started != started {
		s.Started = ptr.To(started)
	}
	if kind == podspec.Init {
		end := s.State.Terminated
		s.Ready = end != nil && !podspec.InitFailed(end.ExitCode, end.Reason)
		return
	}
	s.Ready = started && passes(c.in.Plan.Health[n.ID].Readiness, same && old.Ready)
}

// started says whether a running container has started: its postStart hook has ended, and its
// startup probe succeeded.
func (c *computer) started(ct *v1.Container, n *observed.Container, before bool) bool {
	return !c.hookAhead(ct, n) && passes(c.in.Plan.Health[n.ID].Startup, before)
}

// hookAhead says whether a container's postStart hook has not succeeded yet.
func (c *computer) hookAhead(ct *v1.Container, n *observed.Container) bool {
	return podspec.PostStart(ct) != nil && c.in.Plan.Hooks[n.ID].PostStart != podplan.HookDone
}

// hookWaits is the state of a container that has begun, while its postStart hook runs. API and documentation promise
// that a container is not shown as running, nor its pod, before that hook has ended.
func (c *computer) hookWaits(id string, old *v1.ContainerStatus) v1.ContainerState {
	if h := c.in.Plan.Hooks[id]; h.PostStart == podplan.HookFailed {
		return waitingState(old, podplan.HookError, h.Message)
	}
	return waitingState(old, podplan.DefaultReason(c.pod), "its postStart hook has not ended yet")
}

// passes says whether a probe has passed. If it has not answered since the agent began, the earlier
// value stands.
func passes(p probe.Result, before bool) bool {
	switch p {
	case probe.None, probe.Success:
		return true
	case probe.Unknown:
		return before
	default:
		return false
	}
}
