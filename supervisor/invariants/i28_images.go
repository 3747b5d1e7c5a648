package invariants

import "fmt"

var imagesFirst = rule{
	Rule: Rule{
		ID: "I28",
		Text: "No pod is evicted because a disk is short while the removal of images that nobody uses and that were there " +
			"for half a minute would be enough.",
		Excuses: "Half a minute after a fault, a crash of an actor or the start of the agent; five minutes after a call " +
			"that gets no answer. A process or machine that stands still, and a message that is late.",
	},
	evicted: func(n *Node, _ *Pod, e *Eviction) string {
		if !e.ImagesEnough || !n.now().After(later(n.calm(nil), n.callTrouble.until)) {
			return ""
		}
		return fmt.Sprintf("it is evicted for %s, though the removal of images that nobody uses would be enough", e.For)
	},
}
