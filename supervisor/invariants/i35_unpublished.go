package invariants

import (
	"fmt"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

var notPulledAway = rule{
	Rule: Rule{
		ID:   "I35",
		Text: "A CSI driver is not asked to unpublish a volume, and does not do so, while a container of the pod runs.",
	},
	driven: func(_ *Node, p *Pod, c *machine.CSIChange) string {
		if c.Op != csi.UnpublishVolume || p == nil {
			return ""
		}
		for _, of := range p.containers { // order-free: one is enough to be told of
			if of.running() {
				return fmt.Sprintf("volume %s is unpublished while container %s runs", c.Key, of.name)
			}
		}
		return ""
	},
}
