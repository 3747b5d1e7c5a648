package invariants

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/cri/simcri"
)

var inOrder = rule{
	Rule: Rule{
		ID: "I05",
		Text: "When a container is made for the first time in a sandbox, the init containers before it have completed in " +
			"that sandbox, and the sidecars before it were started there. When the pod ends, a sidecar is asked to stop " +
			"after all main containers and later sidecars.",
		Excuses: "To stop: the first half second, a grace period that is over, and a start that was answered late, with " +
			"an error or not at all. A pod that was gone before the agent began.",
	},
	called: func(n *Node, p *Pod, c *simcri.Call) string {
		at := p.containers[c.Object]
		if c.Method != simcri.StopContainer || at == nil || !at.asked.IsZero() || p.spec == nil ||
			at.graceEnds.IsZero() || !n.now().Before(at.graceEnds) || n.now().Sub(p.endsSince) <= noticed ||
			p.endsSince.Before(n.began) && !n.told(p) { // its spec is not known any more
			return ""
		}
		for _, x := range p.containers { // order-free: any of them
			if x.running() && x.sandbox == at.sandbox && x.asked.IsZero() && !x.doubtful && p.stopsBefore(x.name, at.name) {
				return fmt.Sprintf("sidecar %s was asked to stop before %s", at.name, x.name)
			}
		}
		return ""
	},
	changed: func(_ *Node, p *Pod, t *simcri.Transition) string {
		if t.Container == "" || t.Kind != observed.ContainerCreatedEvent || p.spec == nil ||
			p.madeIn(t.Sandbox, t.Container) {
			return ""
		}
		if _, kind := podspec.Find(&p.spec.Spec, t.Container); kind == podspec.Ephemeral {
			return "" // people look into pods that do not start
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

// stopsBefore reports whether a container stops before a sidecar does when the pod ends.
func (p *Pod) stopsBefore(name, sidecar string) bool {
	list := p.spec.Spec.InitContainers
	at := func(name string) int {
		return slices.IndexFunc(list, func(c v1.Container) bool { return c.Name == name && podspec.IsSidecar(&c) })
	}
	c, kind := podspec.Find(&p.spec.Spec, name)
	return at(sidecar) >= 0 && (c != nil && kind == podspec.Main || at(name) > at(sidecar))
}
