package invariants

import (
	"fmt"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

var stagedFirst = rule{
	Rule: Rule{
		ID: "I33",
		Text: "A CSI driver is asked to publish a volume only while it is staged, and to stage it only if it is not staged " +
			"in another way.",
		Excuses: "A driver without calls to stage volumes, and an inline volume.",
	},
	driven: func(n *Node, _ *Pod, c *machine.CSIChange) string {
		if c.Worked {
			return ""
		}
		was := n.volumes.staged[c.Key]
		switch {
		case c.Op == csi.PublishVolume && was == nil && c.Stages && !c.Publish.Inline:
			return fmt.Sprintf("volume %s is to be published, and is not staged", c.Key)
		case c.Op == csi.StageVolume && was != nil && !was.Same(*c.Stage):
			return fmt.Sprintf("volume %s is to be staged in another way than it is", c.Key)
		}
		return ""
	},
}
