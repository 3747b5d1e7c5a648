package invariants

import (
	"fmt"

	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

var notInUse = rule{
	Rule: Rule{
		ID:   "I13",
		Text: "Volumes are not unmounted and a cgroup is not removed while a container of the pod runs.",
	},
	done: func(_ *Node, p *Pod, c *machine.Call) string {
		if c.Verb != "UnmountPod" && c.Verb != "RemovePod" && c.Verb != "RemovePodCgroup" {
			return ""
		}
		for _, of := range p.containers { // order-free: one is enough to be told of
			if of.running() {
				return fmt.Sprintf("%s while container %s runs", c.Verb, of.name)
			}
		}
		return ""
	},
}
