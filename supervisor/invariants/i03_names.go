package invariants

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/cri/simcri"
)

var oneUID = rule{
	Rule: Rule{
		ID: "I03", Text: "Of the pods with one namespace and name, the containers of one UID run.",
		Excuses: "A pod of the apiserver that has not been wanted for five minutes, and whose containers the agent asked " +
			"to stop: the runtime fails to. A static pod, and one of the apiserver.",
	},
	changed: func(n *Node, p *Pod, t *simcri.Transition) string {
		if t.Container == "" || t.Kind != observed.ContainerStartedEvent {
			return ""
		}
		for uid := range n.running[podName{p.Ref.Namespace, p.Ref.Name}] { // order-free: any of them
			if o := n.pods[uid]; uid != p.Ref.UID && !n.resists(o) && !apart(p, o) {
				return fmt.Sprintf("container %s starts while a pod of its name runs, %s", t.Container, uid)
			}
		}
		return ""
	},
}

// apart: one of them is static, and the other is not.
func apart(p, o *Pod) bool {
	return p.spec != nil && o.spec != nil && podspec.Static(p.spec) != podspec.Static(o.spec)
}

// resists: the runtime has failed for long to stop what runs of a pod.
func (n *Node) resists(p *Pod) bool {
	for _, c := range p.containers { // order-free: all of them
		if c.running() && c.asked.IsZero() {
			return false
		}
	}
	return p.spec != nil && originOf(p) == podspec.API && !p.wanted && n.now().Sub(p.dropped) >= 5*time.Minute
}
