package invariants

import (
	"fmt"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/cri/simcri"
)

var oneUID = rule{
	Rule: Rule{ID: "I03", Text: "Of the pods with one namespace and name, the containers of one UID run."},
	changed: func(n *Node, p *Pod, t *simcri.Transition) string {
		if t.Container == "" || t.Kind != observed.ContainerStartedEvent {
			return ""
		}
		for uid := range n.running[podName{p.Ref.Namespace, p.Ref.Name}] { // order-free: there is one other at most
			if uid != p.Ref.UID {
				return fmt.Sprintf("container %s starts while a pod of its name runs, %s", t.Container, uid)
			}
		}
		return ""
	},
}
