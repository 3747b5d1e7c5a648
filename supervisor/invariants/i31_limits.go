package invariants

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
)

// oneLook is how long a pod may be over its limits: until the next look, and the time of that.
const oneLook = 15 * time.Second

var withinLimits = rule{
	Rule: Rule{
		ID: "I31",
		Text: "A pod that is to run, and whose containers use more disk than its limits, is evicted within 15 seconds: a " +
			"look each 10 seconds, and its own time.",
		Excuses: "A minute more if something is freed on the disk about then, or the clock is set: what a pod adds " +
			"can't be told from what another frees. Half a minute after a fault of the pod or of the node, a crash of an " +
			"actor or the start of the agent; five minutes after a call that gets no answer. A process or machine that stands " +
			"still, and a message that is late.",
	},
	measured: (*Node).overLimit,
	settled:  (*Node).overLimit,
}

func (n *Node) overLimit(p *Pod) string {
	if p.overLimit.IsZero() || p.evicted.is || !p.wanted || !p.living() {
		return ""
	}
	since := later(later(p.overLimit, p.since), n.calm(p))
	due := since.Add(oneLook)
	if later(n.freed, n.clockSet).After(p.overLimit.Add(-2 * oneLook)) {
		due = due.Add(eviction.Blind)
	}
	if n.now().After(due) {
		return fmt.Sprintf("it is over its limits of disk since %s, and is not evicted", n.now().Sub(p.overLimit))
	}
	return ""
}
