package invariants

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/cri/simcri"
)

var finishedForGood = rule{
	Rule: Rule{
		ID: "I43",
		Text: "A regular container whose end the API shows, and that its policy and rules do not restart after that end, " +
			"is not made again; nor is an ephemeral container that the API shows as running or ended. In whatever sandbox, " +
			"and also when the runtime no longer has a record of it.",
		Excuses: "A pod that was not wanted, and is again: it may be another life of it. A rule that restarts all " +
			"containers. An end that nobody has seen (ContainerStatusUnknown).",
	},
	changed: func(_ *Node, p *Pod, t *simcri.Transition) string {
		if t.Container == "" || t.Kind != observed.ContainerCreatedEvent || p.spec == nil || p.shown == nil || p.everDropped {
			return ""
		}
		spec, kind := podspec.Find(&p.spec.Spec, t.Container)
		if spec == nil {
			return ""
		}
		status := &p.shown.Status
		for _, s := range slices.Concat(status.ContainerStatuses, status.EphemeralContainerStatuses) {
			end := s.State.Terminated
			switch {
			case s.Name != t.Container:
			case kind == podspec.Ephemeral && (end != nil || s.State.Running != nil):
				return fmt.Sprintf("ephemeral container %s was made again", t.Container)
			case kind == podspec.Main && endedForGood(spec, p.spec, end):
				return fmt.Sprintf("container %s was made again after the API has shown that it ended for good, with code %d",
					t.Container, end.ExitCode)
			}
		}
		return ""
	},
}

func endedForGood(c *v1.Container, pod *v1.Pod, end *v1.ContainerStateTerminated) bool {
	return end != nil && end.Reason != podspec.StatusUnknown && !podspec.MayRestartAll(pod) &&
		!restartsAfter(c, pod, end.ExitCode)
}
