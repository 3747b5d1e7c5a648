package invariants

import (
	"fmt"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

var unstagedLast = rule{
	Rule: Rule{ID: "I34", Text: "A CSI driver is asked to unstage a volume only while it is published for no pod."},
	driven: func(n *Node, _ *Pod, c *machine.CSIChange) string {
		if uid := n.volumes.user(c.Key); c.Op == csi.UnstageVolume && uid != "" {
			return fmt.Sprintf("volume %s is unstaged while it is published for pod %s", c.Key, uid)
		}
		return ""
	},
}
