package invariants

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/cri/simcri"
)

var asksEachPeriod = rule{
	Rule: Rule{
		ID: "I22",
		Text: "A running container with a liveness or readiness probe is asked within the longest period of its probes, " +
			"that one's timeout and a second, counted from its initial delay or its last probe, by a clock that nobody sets.",
		Excuses: "A container that is being stopped, and one without a ready sandbox. The time until the agent is told of " +
			"the pod. To be late: as I27.",
	},
	called: func(n *Node, p *Pod, c *simcri.Call) string {
		if !asks(c) {
			return ""
		}
		at := p.lineage(c.Container).running
		if at == nil {
			return ""
		}
		what := n.unasked(p, at)
		at.probed = n.now()
		return what
	},
	settled: func(n *Node, p *Pod) string {
		if p.spec == nil {
			return ""
		}
		for i := range p.spec.Spec.Containers {
			if c := p.lineage(p.spec.Spec.Containers[i].Name).running; c != nil {
				if what := n.unasked(p, c); what != "" {
					return what
				}
			}
		}
		return ""
	},
}

// asks says whether a call is one that a probe makes.
func asks(c *simcri.Call) bool {
	switch c.Method {
	case simcri.ProbeHTTP, simcri.ProbeTCP, simcri.ProbeGRPC, simcri.ExecSync:
		return true
	default:
		return false
	}
}

// unasked says what is wrong if a container is asked now, or is not yet.
func (n *Node) unasked(p *Pod, c *container) string {
	if !p.wanted || p.ready == 0 || !c.asked.IsZero() {
		return ""
	}
	spec, _ := podspec.Find(&p.spec.Spec, c.name)
	if spec == nil {
		return ""
	}
	initial, most := probeGap(spec)
	since := later(later(c.probed, c.startedAt.Add(initial)), later(n.calm(p), p.since))
	if gap := n.now().Sub(since); most > 0 && gap > most {
		return fmt.Sprintf("container %s was not probed for %s", c.name, gap)
	}
	return ""
}

// probeGap is how long the probes of a container may wait to begin, and how long the container may
// go without one then; 0 if it has none for as long as it runs.
func probeGap(c *v1.Container) (initial, most time.Duration) {
	if c.LivenessProbe == nil && c.ReadinessProbe == nil {
		return 0, 0
	}
	for k := range probe.Kinds {
		if of := probe.Of(c, k); of != nil {
			r := probe.RulesOf(k, of)
			initial = max(initial, r.InitialDelay)
			most = max(most, r.Period+r.Timeout+time.Second)
		}
	}
	return initial, most
}
