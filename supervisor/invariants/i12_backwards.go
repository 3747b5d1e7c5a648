package invariants

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
)

var neverBackwards = rule{
	Rule: Rule{
		ID:   "I12",
		Text: "No version of a pod in the API says less than the one before: phases, restart counts, ends, resizes.",
		Excuses: "A write that the apiserver does late: it may come after those of another agent. An apiserver that is " +
			"restored from a backup begins anew.",
	},
	shown: func(_ *Node, p *Pod, of *v1.Pod, gone bool) string {
		if gone {
			return ""
		}
		if !podspec.Mirror(of) {
			if what := podstatus.HiddenResize(of); what != "" {
				return what
			}
		}
		if p.shown == nil || p.lateWrite {
			return ""
		}
		return podstatus.Backwards(of, &p.shown.Status, &of.Status)
	},
}
