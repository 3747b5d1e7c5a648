package podplan

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// RestartsAfter says whether a container that ended with this code is started
// again: the first of its restart rules that matches, then its own policy,
// then the pod's (API fields restartPolicyRules and restartPolicy, KEP-5307).
func RestartsAfter(c *v1.Container, pod *v1.Pod, code int32) bool {
	switch matchingRule(c, code) {
	case v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers:
		return true
	}
	switch policyOf(c, pod) {
	case v1.RestartPolicyNever:
		return false
	case v1.RestartPolicyOnFailure:
		return code != 0
	default:
		return true
	}
}

// MayLeaveTerminated says whether a container that is shown as terminated with this
// code may be shown as anything else later. The apiserver refuses a status of which
// that is not so, whatever else it says (ValidateContainerStateTransition).
func MayLeaveTerminated(pod *v1.Pod, c *v1.Container, code int32) bool {
	return hasRestartAll(pod) || RestartsAfter(c, pod, code)
}

// policyOf is the restart policy of a container without its rules.
func policyOf(c *v1.Container, pod *v1.Pod) v1.RestartPolicy {
	if c.RestartPolicy != nil {
		return v1.RestartPolicy(*c.RestartPolicy)
	}
	return pod.Spec.RestartPolicy
}

// matchingRule is the action of the first rule that matches, empty if none
// does. Rules count only beside a restart policy of the container's own.
func matchingRule(c *v1.Container, code int32) v1.ContainerRestartRuleAction {
	if c.RestartPolicy == nil {
		return ""
	}
	for i := range c.RestartPolicyRules {
		r := &c.RestartPolicyRules[i]
		if r.ExitCodes == nil {
			continue
		}
		in := slices.Contains(r.ExitCodes.Values, code)
		if r.ExitCodes.Operator == v1.ContainerRestartRuleOnExitCodesOpIn && in ||
			r.ExitCodes.Operator == v1.ContainerRestartRuleOnExitCodesOpNotIn && !in {
			return r.Action
		}
	}
	return ""
}

// findEpoch finds the last exit whose rule asks to restart all containers of
// the pod (KEP-5532). Everything made before it is of an earlier epoch: what
// lives of it is stopped, what ended counts as never run, and the pod starts
// over with its init containers, in the same sandbox. Until it is known how all
// that ended did, nothing is made: it might belong to the epoch before.
func (p *planner) findEpoch() {
	if !hasRestartAll(p.in.Pod) {
		return
	}
	cs := p.in.View.Containers
	for i := range cs {
		c := &cs[i]
		if c.State != observed.ContainerExited || c.Detailed && c.FinishedAt.Before(p.epoch) {
			continue
		}
		spec, kind := specOf(p.in.Pod, c.Name)
		if spec == nil || kind == Ephemeral {
			continue
		}
		if !c.Detailed {
			newest := i == 0 || cs[i-1].Name != c.Name
			p.unsure = p.unsure || newest && !p.inspect(c)
			continue
		}
		if matchingRule(spec, c.ExitCode) == v1.ContainerRestartRuleActionRestartAllContainers {
			p.epoch = c.FinishedAt
		}
	}
	if p.epoch.After(p.now) {
		p.epoch = time.Time{}
	}
	p.out.Epoch = p.epoch
	for i := range cs {
		// The pod begins anew when nothing of what it was lives on.
		if _, kind := specOf(p.in.Pod, cs[i].Name); kind != Ephemeral && p.lives(&cs[i]) && p.outlived(&cs[i]) {
			p.unsure = true
		}
	}
}

// outlived says whether c is of an earlier epoch than the pod, in the sandbox in
// use: it has to go because another container's exit says so.
func (p *planner) outlived(c *observed.Container) bool {
	return p.sandbox != nil && c.SandboxID == p.sandbox.ID && c.CreatedAt.Before(p.epoch)
}

// reset stops a container for the restart of all of its pod: its preStop hook is
// not run, and its grace is the least that there is (KEP-5532).
func (p *planner) reset(n *observed.Container) {
	if calls, _, _ := p.stopsUnderWay(n.ID); calls > 0 || !p.mayStop(n) {
		return
	}
	why := "Stopping container " + n.Name + ": all containers of the pod are restarted"
	if p.do(StopContainer{Name: n.Name, ID: n.ID, Grace: leastGrace, Why: why}) {
		p.noteKilling(n, why)
	}
}

func hasRestartAll(pod *v1.Pod) bool {
	for _, list := range [...][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if RestartsAll(&list[i]) {
				return true
			}
		}
	}
	return false
}

// RestartsAll says whether a container has a rule that restarts its whole pod.
func RestartsAll(c *v1.Container) bool {
	return slices.ContainsFunc(c.RestartPolicyRules, func(r v1.ContainerRestartRule) bool {
		return r.Action == v1.ContainerRestartRuleActionRestartAllContainers
	})
}

// restarts says whether the ended incarnation n is followed by another one.
func (p *planner) restarts(c *v1.Container, kind ContainerKind, n *observed.Container) bool {
	switch kind {
	case Sidecar:
		return true
	case Ephemeral:
		return false
	case Init:
		if n.State == observed.ContainerExited && n.ExitCode == 0 {
			return !p.fresh(n)
		}
	case Main:
	}
	if n.CreatedAt.Before(p.epoch) || p.in.EndedForRestart(n) {
		return true
	}
	if n.State == observed.ContainerUnknown {
		// Nobody knows how it ended, so no rule on exit codes applies.
		return kind == Main || policyOf(c, p.in.Pod) != v1.RestartPolicyNever
	}
	return RestartsAfter(c, p.in.Pod, n.ExitCode)
}

// specOf finds a container of the pod by name; nil if the spec has none.
func specOf(pod *v1.Pod, name string) (*v1.Container, ContainerKind) {
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == name {
			return c, Main
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == name {
			return c, kindOfInit(c)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if c := &pod.Spec.EphemeralContainers[i]; c.Name == name {
			return (*v1.Container)(&c.EphemeralContainerCommon), Ephemeral
		}
	}
	return nil, Main
}

func kindOfInit(c *v1.Container) ContainerKind {
	if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
		return Sidecar
	}
	return Init
}
