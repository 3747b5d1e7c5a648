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
		Excuses: "Another image: the container is stopped to be made again with it, and may end before the signal.",
	},
	changed: func(_ *Node, p *Pod, t *simcri.Transition) string {
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
		case l.running != nil && l.running.sandbox == t.Sandbox:
			return fmt.Sprintf("container %s was made again while it runs", t.Container)
		case last == nil || last.sandbox != t.Sandbox || last.attempt != l.newest || last.cause != simcri.ByItself,
			last.image != p.image(t.Container):
			return ""
		}
		spec, kind := podspec.Find(&p.spec.Spec, t.Container)
		if spec == nil || kind != podspec.Main || podspec.MayRestartAll(p.spec) || !last.asked.IsZero() ||
			restartsAfter(spec, p.spec, last.exitCode) {
			return ""
		}
		return fmt.Sprintf("container %s was made again after it ended with code %d, against its restart policy",
			t.Container, last.exitCode)
	},
}

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
