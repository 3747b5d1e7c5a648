package podplan

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// findEpoch finds the last exit whose rule restarts all containers of the pod (KEP-5532).
// Everything made before it is of an earlier epoch. Living containers of that are stopped, ended
// ones count as never run, and the pod starts over with its init containers in the same sandbox.
// Nothing is made until all exits are known, because it might belong to the earlier epoch.
func (p *planner) findEpoch() {
	if !podspec.MayRestartAll(p.in.Pod) {
		return
	}
	cs := p.in.View.Containers
	for i := range cs {
		c := &cs[i]
		if c.State != observed.ContainerExited || c.Detailed && c.FinishedAt.Before(p.epoch) {
			continue
		}
		spec, kind := p.specOf(c.Name)
		if spec == nil || kind == podspec.Ephemeral {
			continue
		}
		if !c.Detailed {
			newest := i == 0 || cs[i-1].Name != c.Name
			p.epochUnknown = p.epochUnknown || newest && !p.inspect(c)
			continue
		}
		if podspec.MatchingRule(spec, c.ExitCode) == v1.ContainerRestartRuleActionRestartAllContainers {
			p.epoch = c.FinishedAt
		}
	}
	if p.epoch.After(p.now) {
		p.epoch = time.Time{}
	}
	p.out.Epoch = p.epoch
	for i := range cs {
		// The pod starts over only when nothing of the earlier epoch lives.
		if !p.lives(&cs[i]) || !p.fromOldEpoch(&cs[i]) {
			continue
		}
		if _, kind := p.specOf(cs[i].Name); kind != podspec.Ephemeral {
			p.epochUnknown = true
		}
	}
}

// fromOldEpoch says whether c, in the sandbox in use, is of an earlier epoch. It must stop because of
// another container's exit.
func (p *planner) fromOldEpoch(c *observed.Container) bool {
	return p.sandbox != nil && c.SandboxID == p.sandbox.ID && c.CreatedAt.Before(p.epoch)
}

// reset stops a container for the restart of its whole pod: without its preStop hook, and with the
// least grace (KEP-5532).
func (p *planner) reset(n *observed.Container) {
	if p.stopsUnderWay(n.ID).calls > 0 || !p.mayStop(n) {
		return
	}
	why := "Stopping container " + n.Name + ": all containers of the pod are restarted"
	if p.do(StopContainer{Name: n.Name, ID: n.ID, Grace: leastGrace, Why: why}) {
		p.noteKilling(n, why)
	}
}

// overUnrecorded says whether a container that the runtime has no record of has ended for good by the
// pod's status: its record was removed. A regular container counts as ended with the code that the
// status shows, unless nobody has seen its end. An ephemeral container runs once, so it is enough that it
// ran. Init containers and sidecars are made again where the runtime does not show that they need not be.
func (p *planner) overUnrecorded(c *v1.Container, kind podspec.Kind) bool {
	s := p.last.of(c.Name)
	if s == nil {
		return false
	}
	end := s.State.Terminated
	switch kind {
	case podspec.Ephemeral:
		return end != nil || s.State.Running != nil || s.LastTerminationState.Terminated != nil
	case podspec.Main:
		return podspec.OverForGood(c, p.in.Pod, s) && !end.StartedAt.Time.Before(p.epoch)
	default:
		return false
	}
}

// restarts says whether another incarnation follows the ended n.
func (p *planner) restarts(c *v1.Container, kind podspec.Kind, n *observed.Container) bool {
	switch kind {
	case podspec.Sidecar:
		return true
	case podspec.Ephemeral:
		return false
	case podspec.Init:
		if n.State == observed.ContainerExited && !podspec.InitFailed(n.ExitCode, n.Reason) {
			return !p.fresh(n)
		}
	case podspec.Main:
		if s := p.last.of(c.Name); s != nil && int64(s.RestartCount) > int64(n.Attempt) &&
			!strings.HasSuffix(s.ContainerID, "://"+n.ID) && p.overUnrecorded(c, kind) {
			return false // the record of a later one was removed
		}
	}
	if n.CreatedAt.Before(p.epoch) || p.in.EndedForRestart(n) {
		return true
	}
	if n.State == observed.ContainerUnknown {
		// The exit code is unknown, so no rule on exit codes applies.
		return kind == podspec.Main || podspec.RestartPolicy(c, p.in.Pod) != v1.RestartPolicyNever
	}
	if kind == podspec.Init {
		return podspec.InitRestartsAfter(c, p.in.Pod, n.ExitCode)
	}
	return podspec.RestartsAfter(c, p.in.Pod, n.ExitCode)
}
