package invariants

import (
	"fmt"

	"github.com/troupe-dev/troupe/cri/simcri"
)

var publishedFirst = rule{
	Rule: Rule{
		ID:   "I38",
		Text: "A container is made and started only while the volumes of all claims of its pod are published.",
	},
	called: func(n *Node, p *Pod, c *simcri.Call) string {
		if !n.volumes.driven || p.spec == nil || c.Method != simcri.CreateContainer && c.Method != simcri.StartContainer {
			return ""
		}
		if want, has := claims(&p.spec.Spec), n.volumes.of(p.Ref.UID); has < want {
			return fmt.Sprintf("%s of container %s while %d of %d volumes are published", c.Method, c.Container, has, want)
		}
		return ""
	},
}
