package podtable

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/cmd/troupe/screen"
)

const (
	messageLimit = 160 // characters of one message
	callsShown   = 3
)

// why says in one line what keeps a pod from being well, and what is being done.
func why(p *podview.Pod, o Options) string {
	var parts []string
	if p.Source == podspec.Orphan {
		parts = append(parts, "orphaned: no source has this pod")
	}
	if p.Problem != "" {
		parts = append(parts, screen.Middle(p.Problem, messageLimit))
	}
	if p.Message != "" {
		parts = append(parts, screen.Middle(p.Message, messageLimit))
	}
	for i := range p.Containers {
		if text := containerWhy(&p.Containers[i], o); text != "" {
			parts = append(parts, text)
		}
	}
	if calls := doing(p, o); calls != "" {
		parts = append(parts, calls)
	}
	return strings.Join(parts, "; ")
}

func containerWhy(c *podview.Container, o Options) string {
	text := ""
	switch {
	case c.State == waiting:
		if c.Reason == "" || quiet(c.Reason) && c.Message == "" {
			return ""
		}
		text = "waiting"
	case c.State == terminated && (exitCode(c) != 0 || c.Kind == kindSidecar):
		text = endedWith(exitCode(c), c.FinishedAt, o)
	case c.State == running && !c.Ready && c.Kind != kindInit && c.Kind != kindEphemeral:
		text = "running but not ready"
	default:
		return ""
	}
	text = c.Name + " " + text
	if c.Reason != "" {
		text += ": " + c.Reason
	}
	if c.Message != "" {
		text += ": " + screen.Middle(c.Message, messageLimit)
	}
	if c.State == waiting && c.Last != nil {
		text += "; it " + endedWith(c.Last.ExitCode, c.Last.FinishedAt, o)
		if c.Last.Reason != "" {
			text += ": " + c.Last.Reason
		}
		if c.Last.Message != "" {
			text += ": " + screen.Middle(c.Last.Message, messageLimit)
		}
	}
	return text
}

func endedWith(code int32, at *time.Time, o Options) string {
	text := fmt.Sprintf("ended with exit code %d", code)
	if at != nil {
		text += " " + age(o.Now, at) + " ago"
	}
	return text
}

// quiet reasons only say that the pod is starting.
func quiet(reason string) bool { return reason == "ContainerCreating" || reason == "PodInitializing" }

// doing are the running calls: with their age from the tree of actors, if that is known, else as
// in the pod's view.
func doing(p *podview.Pod, o Options) string {
	var calls []string
	for _, c := range o.Doing[p.UID] {
		text := c.What
		if c.Phase != "" && c.Phase != running {
			text += " " + c.Phase
		}
		calls = append(calls, text+" for "+duration.HumanDuration(max(0, o.Now.Sub(c.Since))))
	}
	if len(calls) == 0 {
		for _, d := range p.Doing {
			calls = append(calls, screen.Line(d, messageLimit))
		}
	}
	if len(calls) == 0 {
		return ""
	}
	if extra := len(calls) - callsShown; extra > 0 {
		calls = append(calls[:callsShown:callsShown], fmt.Sprintf("%d more", extra))
	}
	return "in progress: " + strings.Join(calls, ", ")
}
