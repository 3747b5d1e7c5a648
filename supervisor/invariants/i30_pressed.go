package invariants

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

var staysPressed = rule{
	Rule: Rule{
		ID: "I30",
		Text: "The API shows MemoryPressure, DiskPressure or PIDPressure until evictionPressureTransitionPeriod after the " +
			"last measurement in which a threshold was met.",
		Excuses: "Another agent, and a crash of an actor since then: they do not know of it. Since then also a fault " +
			"of the node or of the apiserver, a clock that was set, a process or machine that stands still, a message that " +
			"is late, and a restore of the apiserver.",
	},
	relieved: func(n *Node, c v1.NodeConditionType, since time.Time) string {
		met, is := n.met[c]
		if !is {
			met = since
		}
		forgotten := later(later(later(n.crashedAt, n.began), n.clockSet), later(n.apiTrouble.until, n.restoredAt))
		forgotten = later(forgotten, later(n.still, n.trouble.until))
		if early := met.Add(n.transition).Sub(n.now()); early > 0 && !forgotten.After(met) {
			return fmt.Sprintf("it shows no %s any more, %s too soon", c, early)
		}
		return ""
	},
}
