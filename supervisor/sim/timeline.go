package sim

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podstatus"
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
	var notes []string
	if p.Spec.NodeName != "" {
		notes = append(notes, "node="+p.Spec.NodeName)
	}
	if p.DeletionTimestamp != nil {
		notes = append(notes, "terminating")
	}
	return podstatus.Line(&p.Status, notes...)
}
