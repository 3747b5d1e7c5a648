package invariants

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

var notJudgedAgain = rule{
	Rule: Rule{
		ID: "I41",
		Text: "A pod that has a ready sandbox when an agent begins is not refused by that agent, whatever the node has " +
			"become.",
		Excuses: "Its sandbox ended, and the agent had not asked for that; or it had no sandbox when an actor crashed.",
	},
	shown: func(_ *Node, p *Pod, of *v1.Pod, gone bool) string {
		was := p.shown != nil && p.shown.Status.Phase == v1.PodFailed
		if gone || was || !p.adopted || of.Status.Phase != v1.PodFailed || !refusal(of.Status.Reason) {
			return ""
		}
		return fmt.Sprintf("it ran when the agent began, and is refused: %s", of.Status.Reason)
	},
}

// refusal says whether a pod has failed for this reason because it was not admitted.
func refusal(reason string) bool {
	return strings.HasPrefix(reason, "OutOf") || slices.Contains([]string{
		"NodeAffinity", "NodeName", "NodePorts", "TaintToleration", "UnexpectedAdmissionError", "TopologyAffinityError",
		"SysctlForbidden", "AppArmor", "PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch",
	}, reason)
}
