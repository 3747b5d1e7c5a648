package invariants

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/cri/simcri"
)

// afterGrace is how long after its grace period a container may run: it has two seconds to see
// its signal in, and then there is the call.
const afterGrace = leastGrace + time.Second

var killedAfterItsGrace = rule{
	Rule: Rule{
		ID: "I27",
		Text: "A container ends at most three seconds after the grace period that the agent was told of for its pod, or " +
			"after its start if that is later.",
		Excuses: "Half a minute after a fault of the pod or of the node, a crash of an actor or the start of the agent; " +
			"five minutes after a call that gets no answer. A process or machine that stands still, and a message that " +
			"is late. A static pod or one that is evicted, as long as a checkpoint can't be written.",
	},
	changed: func(n *Node, p *Pod, t *simcri.Transition) string {
		if t.Container == "" || t.Kind != observed.ContainerStoppedEvent {
			return ""
		}
		c := p.containers[t.ID]
		if !c.running() || c.graceEnds.IsZero() {
			return ""
		}
		due := later(later(c.graceEnds, c.startedAt), n.calm(p))
		if podspec.Static(p.spec) || p.evicted.is {
			due = later(due, n.disk)
		}
		if over := n.now().Sub(due); over > afterGrace {
			return fmt.Sprintf("container %s ended %s after its grace period was over", c.name, over)
		}
		return ""
	},
}
