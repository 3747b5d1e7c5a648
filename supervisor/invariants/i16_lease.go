package invariants

import (
	"fmt"
	"time"
)

// leaseGap is how long a lease may stand: the control plane counts a node as lost after it.
const leaseGap = 40 * time.Second

var renewsItsLease = rule{
	Rule: Rule{
		ID:   "I16",
		Text: "The node's lease is renewed every 40 seconds at least, and its RenewTime only grows.",
		Excuses: "For its growth, the instant at which the apiserver is restored from a backup. For the gap, the time " +
			"until the agent begins, until its last call of the apiserver that went wrong is over, and until 30 seconds " +
			"after a crash of an actor.",
	},
	renewed: func(n *Node, at time.Time) string {
		if !at.After(n.renewTime) && !n.now().Equal(n.restoredAt) {
			return fmt.Sprintf("the RenewTime of its lease went from %v to %v", n.renewTime, at)
		}
		return n.stale()
	},
	rested: (*Node).stale,
}

// stale says what is wrong with a lease that is renewed now, or not yet.
func (n *Node) stale() string {
	since := later(later(n.leased, n.began), later(n.calm(nil), n.apiTrouble.until))
	if gap := n.now().Sub(since); n.inCluster && gap > leaseGap {
		return fmt.Sprintf("its lease was not renewed for %s", gap)
	}
	return ""
}

// Renewed: the API has a version of the node's lease.
func (n *Node) Renewed(at time.Time) {
	for i := range rules {
		if f := rules[i].renewed; f != nil {
			if what := f(n, at); what != "" {
				n.violated(&rules[i], nil, what)
			}
		}
	}
	n.renewTime, n.leased = at, n.now()
}
