package invariants

import (
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/cri/simcri"
)

var oneSandbox = rule{
	Rule: Rule{ID: "I01", Text: "A pod has at most one ready sandbox."},
	changed: func(_ *Node, p *Pod, t *simcri.Transition) string {
		if t.Container == "" && t.Kind == observed.ContainerStartedEvent && p.ready > 0 {
			return "it has two ready sandboxes"
		}
		return ""
	},
}
