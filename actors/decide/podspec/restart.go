package podspec

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// RestartsAfter says whether a container that exited with this code is restarted: by the first
// matching restart rule, then by its own policy, then by the pod's (API fields restartPolicyRules
// and restartPolicy, KEP-5307).
func RestartsAfter(c *v1.Container, pod *v1.Pod, code int32) bool {
	switch MatchingRule(c, code) {
	case v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers:
		return true
	}
	switch RestartPolicy(c, pod) {
	case v1.RestartPolicyNever:
		return false
	case v1.RestartPolicyOnFailure:
		return code != 0
	default:
		return true
	}
}

// OOMKilled is the runtime's reason of a container of which a process was killed because it was out of memory.
const OOMKilled = "OOMKilled"

// InitFailed says whether an init container that exited so has failed. One that was out of memory has, whatever its
// code: the process that was killed may be a child.
func InitFailed(code int32, reason string) bool { return code != 0 || reason == OOMKilled }

// InitRestartsAfter says whether an init container that failed is restarted. It may have failed with code 0.
func InitRestartsAfter(c *v1.Container, pod *v1.Pod, code int32) bool {
	return RestartsAfter(c, pod, code) || RestartPolicy(c, pod) == v1.RestartPolicyOnFailure
}

// OverForGood says whether a regular container has ended, by its status, and is not restarted after that: its
// policy and rules say no. An end that nobody has seen is none.
func OverForGood(c *v1.Container, pod *v1.Pod, s *v1.ContainerStatus) bool {
	end := s.State.Terminated
	return end != nil && end.Reason != StatusUnknown && !RestartsAfter(c, pod, end.ExitCode)
}

// MayLeaveTerminated says whether the status of a container may change from this termination to
// another state. Otherwise the apiserver rejects the whole status
// (ValidateContainerStateTransition).
func MayLeaveTerminated(pod *v1.Pod, c *v1.Container, code int32) bool {
	return MayRestartAll(pod) || RestartsAfter(c, pod, code)
}

// RestartPolicy is the restart policy of a container without its rules: its own, or the pod's.
func RestartPolicy(c *v1.Container, pod *v1.Pod) v1.RestartPolicy {
	if c.RestartPolicy != nil {
		return v1.RestartPolicy(*c.RestartPolicy)
	}
	return pod.Spec.RestartPolicy
}

// MatchingRule is the action of the first matching rule; empty for none. Rules count only if the
// container has its own restart policy.
func MatchingRule(c *v1.Container, code int32) v1.ContainerRestartRuleAction {
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

// MayRestartAll says whether a container of the pod has a rule that restarts all containers
// (KEP-5532). Ephemeral containers have no rules.
func MayRestartAll(pod *v1.Pod) bool {
	for c := range Lasting(&pod.Spec) {
		if slices.ContainsFunc(c.RestartPolicyRules, func(r v1.ContainerRestartRule) bool {
			return r.Action == v1.ContainerRestartRuleActionRestartAllContainers
		}) {
			return true
		}
	}
	return false
}
