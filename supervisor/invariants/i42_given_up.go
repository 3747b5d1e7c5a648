package invariants

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/cri/simcri"
)

var endsWithItsSource = rule{
	Rule: Rule{
		ID: "I42",
		Text: "A container ends at most three seconds after the grace period of its pod, counted from when the pod's " +
			"source has reported without it, also while other sources are silent.",
		Excuses: "As I27. A source that does not know all that it wants: a manifest directory that is not there, a " +
			"manifest without a valid version.",
	},
	changed: func(n *Node, p *Pod, t *simcri.Transition) string {
		if c := p.containers[t.ID]; t.Container != "" && t.Kind == observed.ContainerStoppedEvent && c.running() {
			return n.outlives(p, c)
		}
		return ""
	},
	settled: func(n *Node, p *Pod) string {
		for _, c := range p.containers { // order-free: any of them
			if what := n.outlives(p, c); c.running() && what != "" {
				return what
			}
		}
		return ""
	},
}

// outlives says what is wrong with a container that has run until now.
func (n *Node) outlives(p *Pod, c *container) string {
	if p.givenUp.IsZero() {
		return ""
	}
	due := later(later(p.givenUp.Add(podspec.Grace(p.spec)), c.startedAt), later(n.calm(p), n.disk))
	if over := n.now().Sub(due); over > afterGrace {
		return fmt.Sprintf("container %s has run for %s after its source had given it up", c.name, over)
	}
	return ""
}

// reported: a source has told all that it wants. What it owns beside that is given up.
func (n *Node) reported(source podspec.Origin) {
	for uid, p := range n.pods { // order-free: each by itself
		if p.spec == nil || originOf(p) != source {
			continue
		}
		switch wanted := n.sources[source][uid] != nil; {
		case wanted:
			p.givenUp = time.Time{}
		case p.givenUp.IsZero():
			p.givenUp = n.now()
		}
	}
}
