package sim

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
)

// watchPod writes down what the API shows of a pod, when that is something new.
func (w *World) watchPod(t *Timeline) {
	last := ""
	_, err := w.api.Watch(simapi.WatchOptions{Select: simapi.Select{
		Kind: port.PodKind, Namespace: t.Namespace, Field: "metadata.name=" + t.Name,
	}}, func(e simapi.Event) {
		text := "gone"
		if e.Type != simapi.Deleted {
			text = shown(e.Object.(*v1.Pod))
		}
		if text != last {
			last = text
			t.Moments = append(t.Moments, Moment{At: w.clock.Now(), What: "Status", Text: text})
		}
	})
	if err != nil {
		panic(err) // the selector is ours
	}
}

// shown is a pod in one line, as kubectl would show it.
func shown(p *v1.Pod) string {
	var b strings.Builder
	fmt.Fprintf(&b, "phase=%s", p.Status.Phase)
	if p.Spec.NodeName != "" {
		fmt.Fprintf(&b, " node=%s", p.Spec.NodeName)
	}
	if p.DeletionTimestamp != nil {
		b.WriteString(" terminating")
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == v1.PodReady {
			fmt.Fprintf(&b, " ready=%s", c.Status)
		}
	}
	for _, list := range [...][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			fmt.Fprintf(&b, " %s=%s", list[i].Name, state(&list[i]))
		}
	}
	return b.String()
}

func state(c *v1.ContainerStatus) string {
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
