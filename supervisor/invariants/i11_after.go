package invariants

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/cri/simcri"
)

var nothingAfterTheEnd = rule{
	Rule: Rule{
		ID:   "I11",
		Text: "Nothing is made or started for a pod that is gone from the API or has ended for good there.",
		Excuses: "A pod that is gone: as long as the agent was not told (I08 holds it against what it was told). " +
			"A pod that has ended: none but half a second for what waits for its turn.",
	},
	called: func(n *Node, p *Pod, c *simcri.Call) string {
		switch c.Method {
		case simcri.RunPodSandbox, simcri.CreateContainer, simcri.StartContainer:
		default:
			return ""
		}
		if p.shown != nil && !p.over.IsZero() && n.now().Sub(p.over) > noticed {
			return fmt.Sprintf("%v %s, though it is shown as %s since %v", c.Method, c.Object, p.shown.Status.Phase,
				p.over.Format(time.TimeOnly))
		}
		return ""
	},
	settled: func(_ *Node, p *Pod) string {
		if p.shown == nil || p.over.IsZero() {
			return ""
		}
		if p.ready > 0 {
			return fmt.Sprintf("it is shown as %s, and has a ready sandbox", p.shown.Status.Phase)
		}
		return ""
	},
}
