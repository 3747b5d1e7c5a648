package invariants

import (
	"fmt"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/cri/simcri"
)

var oneSandbox = rule{
	Rule: Rule{
		ID:      "I01",
		Text:    "A pod has at most one ready sandbox, and another is asked for only when none of its containers runs.",
		Excuses: "A container whose start was answered late, with an error or not at all, or that was asked to stop.",
	},
	changed: func(_ *Node, p *Pod, t *simcri.Transition) string {
		if t.Container == "" && t.Kind == observed.ContainerStartedEvent && p.ready > 0 {
			return "it has two ready sandboxes"
		}
		return ""
	},
	called: func(_ *Node, p *Pod, c *simcri.Call) string {
		if c.Method != simcri.RunPodSandbox {
			return ""
		}
		for _, of := range p.containers { // order-free: one is enough to be told of
			if of.running() && !of.doubtful && of.asked.IsZero() {
				return fmt.Sprintf("a sandbox is asked for while container %s runs", of.name)
			}
		}
		return ""
	},
}
