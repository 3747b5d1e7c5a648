package invariants

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/cri/simcri"
)

var restartsAfterAnEnd = rule{
	Rule: Rule{
		ID: "I09",
		Text: "A container is made again in a sandbox only after its last incarnation there has ended, and where that " +
			"ended by itself, only if the restart policy says so.",
		Excuses: "Another image, if only for a time: the container is stopped to be made again with it, and may end " +
			"before the signal. A container that ended while the agent stood still or its pod had trouble, and has a liveness " +
			"or startup probe: the probe may fail before the agent knows of the end. " +
			"While it runs: a call of an agent that was killed meanwhile.",
	},
	changed: func(n *Node, p *Pod, t *simcri.Transition) string {
		if t.Container == "" || t.Kind != observed.ContainerCreatedEvent || p.spec == nil {
			return ""
		}
		for _, c := range p.containers { // order-free: there is one at most
			if c.name == t.Container && c.sandbox == t.Sandbox && c.state == observed.ContainerCreated {
				return fmt.Sprintf("container %s was made again while the one before it waits to be started", t.Container)
			}
		}
		l := p.lineage(t.Container)
		last := l.last
		switch {
		case l.running != nil && l.running.sandbox == t.Sandbox && t.Attempt > l.running.attempt && n.lateCreation(p):
			return ""
		case l.running != nil && l.running.sandbox == t.Sandbox:
			return fmt.Sprintf("container %s was made again while it runs", t.Container)
		case last == nil || last.sandbox != t.Sandbox || last.attempt != l.newest || last.cause != simcri.ByItself,
			last.image != p.image(t.Container), last.otherImage:
			return ""
		}
		spec, kind := podspec.Find(&p.spec.Spec, t.Container)
		if spec == nil || kind != podspec.Main || podspec.MayRestartAll(p.spec) || last.stopped() ||
			restartsAfter(spec, p.spec, last.exitCode) || (spec.LivenessProbe != nil || spec.StartupProbe != nil) &&
			later(n.still, p.trouble.until).After(last.endedAt) {
			return ""
		}
		return fmt.Sprintf("container %s was made again after it ended with code %d, against its restart policy",
			t.Container, last.exitCode)
	},
}

// stopped: it was asked to stop before it ended, or others than the agent have stopped or removed something of its pod.
func (c *container) stopped() bool {
	return !c.asked.IsZero() && (c.doubtful || !c.asked.After(c.endedAt))
}

// lateCreation: a container may be made now for an agent that was killed since it asked for it.
func (n *Node) lateCreation(p *Pod) bool { return n.agents > 1 && p.trouble.until.After(n.now()) }

// restartsAfter says whether a container starts again that has ended with a code. It does not ask the code
// that the agent asks, but for containers with a policy or rules of their own.
func restartsAfter(c *v1.Container, pod *v1.Pod, code int32) bool {
	switch {
	case c.RestartPolicy != nil:
		return podspec.RestartsAfter(c, pod, code)
	case pod.Spec.RestartPolicy == v1.RestartPolicyNever:
		return false
	case pod.Spec.RestartPolicy == v1.RestartPolicyOnFailure:
		return code != 0
	default:
		return true
	}
}
