package invariants

import (
	"fmt"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/cri/simcri"
)

// most is how many dead incarnations of a container there may be. The agent keeps one and
// looks each minute; with the crash backoff at its shortest six end within a minute.
const most = 12

var noGrowth = rule{
	Rule: Rule{
		ID:      "I20",
		Text:    fmt.Sprintf("Of one container of a pod at most %d dead incarnations are kept.", most),
		Excuses: "None: where removals fail, nothing is made without bound either.",
	},
	changed: func(_ *Node, p *Pod, t *simcri.Transition) string {
		if t.Container != "" && t.Kind == observed.ContainerCreatedEvent && p.lineage(t.Container).dead > most {
			return fmt.Sprintf("there are %d dead incarnations of container %s", p.lineage(t.Container).dead, t.Container)
		}
		return ""
	},
}
