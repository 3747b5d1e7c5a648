package invariants

import (
	"fmt"

	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

var releasedFirst = rule{
	Rule: Rule{
		ID:   "I36",
		Text: "The volumes of a pod are unmounted, and its directories removed, after its CSI volumes were unpublished.",
	},
	done: func(n *Node, p *Pod, c *machine.Call) string {
		if count := n.volumes.of(p.Ref.UID); count > 0 && (c.Verb == "UnmountPod" || c.Verb == "RemovePod") {
			return fmt.Sprintf("%s while %d of its CSI volumes are published", c.Verb, count)
		}
		return ""
	},
}
