package invariants

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/cri/simcri"
)

var onlyWithCredentials = rule{
	Rule: Rule{
		ID:      "I39",
		Text:    "A container is made from an image that needs a credential only for a pod that has one.",
		Excuses: "A node that does not note how images were pulled, or whose policy does not verify that of the image.",
	},
	changed: func(n *Node, p *Pod, t *simcri.Transition) string {
		if n.entitled == nil || t.Kind != observed.ContainerCreatedEvent || t.Container == "" || p.spec == nil ||
			n.entitled(p.spec, t.Image) {
			return ""
		}
		return fmt.Sprintf("container %s is made from %s, for which the pod has no credential", t.Container, t.Image)
	},
}

// Entitles says whether a pod may use an image on this node: it needs no credential, or the pod has one.
func (n *Node) Entitles(may func(p *v1.Pod, image string) bool) { n.entitled = may }
