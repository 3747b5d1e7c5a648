package invariants

import (
	"fmt"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/cri/simcri"
)

// The number of a sandbox is free again when nothing is left of it, and that of a container which never
// ran, or of which a collection has removed every incarnation. A container's number is in the path of its log.
var attemptsGrow = rule{
	Rule: Rule{
		ID: "I04",
		Text: "The attempts of a container's incarnations only grow while the pod is to run, or the runtime has one " +
			"of them.",
		Excuses: "Somebody else removes a container.",
	},
	changed: func(_ *Node, p *Pod, t *simcri.Transition) string {
		if t.Kind != observed.ContainerCreatedEvent {
			return ""
		}
		if t.Container == "" {
			if t.Attempt > 0 && int64(t.Attempt) <= p.newest {
				return fmt.Sprintf("a sandbox was made with attempt %d after %d", t.Attempt, p.newest)
			}
			return ""
		}
		l := p.lineage(t.Container)
		if l.made && (t.Attempt < l.newest || t.Attempt == l.newest && l.ran) {
			return fmt.Sprintf("container %s was made with attempt %d after %d", t.Container, t.Attempt, l.newest)
		}
		return ""
	},
}

// has: the runtime has an incarnation of a container name.
func (p *Pod) has(name string) bool {
	for _, c := range p.containers { // order-free: any
		if c.name == name {
			return true
		}
	}
	return false
}
