package invariants

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/cri/simcri"
)

var truthfulEnd = rule{
	Rule: Rule{
		ID: "I10",
		Text: "When a pod that nobody deletes is first shown as Succeeded, each of its containers has ended by itself with " +
			"code 0, and none runs. When it is first shown as Failed, none runs. One that was preempted may have been stopped.",
		Excuses: "Of a pod that an apiserver forgot to be deleted when it was restored from a backup, containers may have " +
			"been stopped.",
	},
	shown: func(_ *Node, p *Pod, of *v1.Pod, gone bool) string {
		if gone || podspec.Mirror(of) || !podspec.Finished(of) || p.shown != nil && podspec.Finished(p.shown) {
			return ""
		}
		for _, c := range p.containers { // order-free: one is enough to be told of
			if c.running() {
				return fmt.Sprintf("it is shown as %s while container %s runs", of.Status.Phase, c.name)
			}
		}
		if of.Status.Phase != v1.PodSucceeded || of.DeletionTimestamp != nil || p.undone || of.Status.Reason == preempted {
			return ""
		}
		for i := range of.Spec.Containers {
			name := of.Spec.Containers[i].Name
			last := p.lineage(name).last
			switch {
			case last == nil && p.finished: // its record is gone
			case last == nil:
				return fmt.Sprintf("it is shown as Succeeded, and container %s never ran", name)
			case !last.completed():
				return fmt.Sprintf("it is shown as Succeeded, and container %s ended %s with code %d", name, last.cause,
					last.exitCode)
			}
		}
		return ""
	},
}

// preempted is the reason in the status of a pod whose place a critical pod has.
const preempted = "Preempting"

// completed: it has ended by itself, with code 0.
func (c *container) completed() bool {
	return c != nil && (c.cause == simcri.ByItself || c.cause == simcri.FromOutside) && c.exitCode == 0
}

// completed: so have all its containers.
func (p *Pod) completed() bool {
	return p.spec != nil && !slices.ContainsFunc(p.spec.Spec.Containers, func(c v1.Container) bool {
		return !p.lineage(c.Name).last.completed()
	})
}
