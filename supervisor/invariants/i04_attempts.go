package invariants

import (
	"fmt"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/cri/simcri"
)

// The number of a sandbox is free again when nothing is left of it, and that of a
// container which never ran too. A container's number is in the path of its log.
var attemptsGrow = rule{
	Rule: Rule{
		ID:      "I04",
		Text:    "The attempts of a container's incarnations only grow while the runtime has a container of the pod.",
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
