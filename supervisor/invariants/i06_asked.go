package invariants

import (
	"fmt"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/cri/simcri"
)

var askedBeforeKilled = rule{
	Rule: Rule{
		ID: "I06",
		Text: "A running container is stopped by StopContainer before its sandbox is stopped or removed, and " +
			"before it is removed.",
		Excuses: "A start that was answered late, with an error or not at all, or that was under way when an actor crashed " +
			"or the agent was killed.",
	},
	changed: func(_ *Node, p *Pod, t *simcri.Transition) string {
		if t.Container == "" || t.Kind != observed.ContainerStoppedEvent {
			return ""
		}
		c, killed := p.containers[t.ID], t.Cause == simcri.WithSandbox || t.Cause == simcri.WithRemoval
		if killed && c.asked.IsZero() && !c.doubtful {
			return fmt.Sprintf("container %s was killed %s, and was never asked to stop", t.Container, t.Cause)
		}
		return ""
	},
}
