package invariants

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
)

var oneVictim = rule{
	Rule: Rule{
		ID: "I29",
		Text: "At most one pod is evicted for the node after each measurement of it, and none for a resource of which a " +
			"pod will free some that was evicted before, until its containers have ended or 30 seconds after its grace period.",
		Excuses: "For the second, a clock that was set, a crash of an actor and another agent since the eviction before: " +
			"which pods are ending is forgotten then. A message that is late.",
	},
	evicted: func(n *Node, p *Pod, e *Eviction) string {
		if e.For == "" || e.Grace == 0 || p.evicted.is || n.still.After(n.now()) {
			return "" // the same message may come twice
		}
		if n.victims > 0 {
			return fmt.Sprintf("it is evicted for %s, the second since the last measurement", e.For)
		}
		forgotten := later(later(n.crashedAt, n.began), n.clockSet)
		for _, o := range n.pods { // order-free: one is enough
			begun := o.evicted.late.Add(-endsLate)
			if o != p && o.evicted.is && onDisk(o.evicted.of) == onDisk(e.For) && (onDisk(e.For) || o.evicted.of == e.For) &&
				n.now().Before(o.evicted.late) && o.living() && begun.After(forgotten) {
				return fmt.Sprintf("it is evicted for %s, though pod %s has not ended", e.For, o.Ref)
			}
		}
		return ""
	},
}

// onDisk says whether an eviction frees disk: for the node, or by a pod's own limit.
func onDisk(of v1.ResourceName) bool {
	return of == "" || of == v1.ResourceEphemeralStorage || of == eviction.Inodes
}
