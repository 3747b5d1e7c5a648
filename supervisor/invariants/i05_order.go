package invariants

import (
	"fmt"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/cri/simcri"
)

var inOrder = rule{
	Rule: Rule{
		ID: "I05",
		Text: "When a container is made for the first time in a sandbox, the init containers before it have completed in " +
			"that sandbox, and the sidecars before it were started there.",
	},
	changed: func(_ *Node, p *Pod, t *simcri.Transition) string {
		if t.Container == "" || t.Kind != observed.ContainerCreatedEvent || p.spec == nil ||
			p.madeIn(t.Sandbox, t.Container) {
			return ""
		}
		for i := range p.spec.Spec.InitContainers {
			before := &p.spec.Spec.InitContainers[i]
			if before.Name == t.Container {
				return ""
			}
			l := p.lineage(before.Name)
			switch {
			case !l.started[t.Sandbox]:
				return fmt.Sprintf("container %s was made before %s was started", t.Container, before.Name)
			case !podspec.IsSidecar(before) && !l.completed[t.Sandbox]:
				return fmt.Sprintf("container %s was made before %s has completed", t.Container, before.Name)
			}
		}
		return ""
	},
}

// madeIn reports whether a container was made in a sandbox before.
func (p *Pod) madeIn(sandbox, name string) bool {
	if p.lineage(name).started[sandbox] {
		return true
	}
	for _, c := range p.containers { // order-free: any of them
		if c.name == name && c.sandbox == sandbox {
			return true
		}
	}
	return false
}
