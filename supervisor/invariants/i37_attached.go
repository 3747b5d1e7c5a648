package invariants

import (
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

// attachedHere is also held against versions of the Node and of VolumeAttachments: csiNodeShown, Attached.
var attachedHere = rule{
	Rule: Rule{
		ID: "I37",
		Text: "From before a CSI driver is asked to stage a volume that is attached until it is unstaged, " +
			"status.volumesInUse of the Node names it. So it is not attached to another node while it is mounted here.",
		Excuses: "An apiserver that is restored from a backup.",
	},
	driven: func(n *Node, _ *Pod, c *machine.CSIChange) string {
		v := &n.volumes
		if c.Worked || !v.attach[c.Driver] || c.Op != csi.StageVolume && c.Op != csi.PublishVolume {
			return ""
		}
		switch other := v.elsewhere[c.Key]; {
		case other != "":
			return fmt.Sprintf("volume %s is mounted here, and attached to node %s", c.Key, other)
		case !slices.Contains(v.inUse, c.UniqueName()):
			return fmt.Sprintf("volume %s is mounted, and status.volumesInUse does not name it", c.Key)
		}
		return ""
	},
}
