package events

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/troupe-dev/troupe/actors/port"
)

// client-go tells events apart by most of their fields, but not by their annotations: it would count an event onto one
// with other annotations, or with none, and nobody would see those of the later one. Therefore the annotations are a
// part of the field path while client-go compares events. Similar events, which it aggregates into one, may still have
// different field paths and annotations. Such an aggregate has no annotations.

// correlate counts e onto an equal event, aggregates it with similar ones, or skips it because there are too many.
func (r *Recorder) correlate(e *port.Event) (*record.EventCorrelateResult, error) {
	o := r.event(e)
	path := o.InvolvedObject.FieldPath
	result, err := r.correlator.EventCorrelate(marked(o, e))
	if err == nil && !result.Skip {
		result.Event.InvolvedObject.FieldPath = path
	}
	return result, err
}

// updateState is what the apiserver has of e.
func (r *Recorder) updateState(e *port.Event, got *v1.Event) {
	r.correlator.UpdateState(marked(got, e))
}

// marked is an event as client-go compares it.
func marked(o *v1.Event, e *port.Event) *v1.Event {
	if len(e.Annotations) == 0 {
		return o
	}
	var b strings.Builder
	b.WriteString(o.InvolvedObject.FieldPath)
	for _, a := range e.Annotations {
		b.WriteString("\x00" + a.Key + "\x00" + a.Value)
	}
	out := *o
	out.InvolvedObject.FieldPath = b.String()
	return &out
}
