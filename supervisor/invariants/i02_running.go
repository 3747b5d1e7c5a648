package invariants

import (
	"fmt"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/cri/simcri"
)

var runsOnce = rule{
	Rule: Rule{ID: "I02", Text: "Of each container of a pod at most one incarnation runs."},
	changed: func(_ *Node, p *Pod, t *simcri.Transition) string {
		if t.Container == "" || t.Kind != observed.ContainerStartedEvent || p.lineage(t.Container).running == nil {
			return ""
		}
		return fmt.Sprintf("container %s runs twice", t.Container)
	},
}
