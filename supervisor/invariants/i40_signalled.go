package invariants

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/cri/simcri"
)

// leastSignal is the least time between a stop signal and the kill.
const leastSignal = time.Second

var signalledBeforeKilled = rule{
	Rule: Rule{
		ID: "I40",
		Text: "A container that the agent stops has a second at least between its stop signal and the kill, also when its " +
			"pod is stopped by force. I07 holds that its preStop hook comes before.",
	},
	called: func(_ *Node, p *Pod, c *simcri.Call) string {
		at := p.containers[c.Object]
		if c.Method != simcri.StopContainer || at == nil || !at.running() || !at.asked.IsZero() || c.Grace >= leastSignal {
			return ""
		}
		return fmt.Sprintf("container %s is to be killed %s after its stop signal", at.name, c.Grace)
	},
}
