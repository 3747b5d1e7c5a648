package invariants

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/cri/simcri"
)

// noticed is how long after the agent has been told that a pod is not to run something may
// be begun for it: what was asked of the runtime before may wait for its turn.
const noticed = 500 * time.Millisecond

var nothingForTheUnwanted = rule{
	Rule: Rule{
		ID: "I08",
		Text: "No sandbox or container is made or started for a pod that is not to run, half a second after the agent was " +
			"told so.",
		Excuses: "A process or machine that stands still, and a message that is late. Half a minute after a crash of an " +
			"actor, while calls about all pods go wrong: podset decides nothing before it has a list of the runtime. " +
			"A static pod, as long as a checkpoint can't be written: why it is stopped is saved first.",
	},
	called: func(n *Node, p *Pod, c *simcri.Call) string {
		switch c.Method {
		case simcri.RunPodSandbox, simcri.CreateContainer, simcri.StartContainer:
		default:
			return ""
		}
		if !n.now().After(n.still.Add(noticed)) {
			return ""
		}
		if n.now().Before(n.callTrouble.until) && n.now().Before(n.replacedAt.Add(recovery)) {
			return ""
		}
		if since := n.now().Sub(p.dropped); !p.wanted && !p.dropped.IsZero() && since > noticed &&
			(n.now().After(n.disk.Add(noticed)) || !podspec.Static(p.spec)) {
			return fmt.Sprintf("%v %s, though the agent was told %v before that the pod is not to run", c.Method, c.Object,
				since)
		}
		return ""
	},
}
