package podstatus

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Line is a status in one line, for timelines: phase=Running ready=True app=running#1. Notes follow
// the phase.
func Line(s *v1.PodStatus, notes ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "phase=%s", s.Phase)
	for _, note := range notes {
		b.WriteString(" " + note)
	}
	if c := FindCondition(s.Conditions, v1.PodReady); c != nil {
		fmt.Fprintf(&b, " ready=%s", c.Status)
	}
	for _, list := range [...][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses,
		s.EphemeralContainerStatuses} {
		for i := range list {
			fmt.Fprintf(&b, " %s=%s", list[i].Name, lineOf(&list[i]))
		}
	}
	return b.String()
}

func lineOf(c *v1.ContainerStatus) string {
	s := "waiting"
	switch {
	case c.State.Running != nil:
		s = "running"
	case c.State.Terminated != nil:
		s = fmt.Sprintf("terminated(%d %s)", c.State.Terminated.ExitCode, c.State.Terminated.Reason)
	case c.State.Waiting != nil:
		s = "waiting(" + c.State.Waiting.Reason + ")"
	}
	if c.RestartCount > 0 {
		s += fmt.Sprintf("#%d", c.RestartCount)
	}
	return s
}
