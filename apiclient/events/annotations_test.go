package events

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/smallmap"
	"github.com/troupe-dev/troupe/tests/check"
)

// annotated records an event of a pod with annotations, given as key and value in turns.
func (w *world) annotated(message string, pairs ...string) {
	var a smallmap.Map[string, string]
	for i := 0; i < len(pairs); i += 2 {
		a.Set(pairs[i], pairs[i+1])
	}
	w.r.Record(port.Event{
		Pod: pod("web"), Container: "app", Warning: true, Reason: "Evicted", Message: message, Annotations: a, At: w.v.Now(),
	})
	w.v.Advance(time.Second)
}

// annotationsOf is the count of an event, its annotations, and its field path.
func annotationsOf(e *v1.Event) string {
	return fmt.Sprint(e.Count, " ", e.Annotations, " ", e.InvolvedObject.FieldPath)
}

// TestAnnotations: annotations are written. An event with the same message and other annotations, or none, is another
// event.
func TestAnnotations(t *testing.T) {
	w := newWorld(t, func(*Config) {})
	w.annotated("low", "starved_resource", "memory", "offending_containers", "")
	w.annotated("low")
	w.annotated("low", "starved_resource", "pids")
	w.annotated("low", "starved_resource", "memory", "offending_containers", "")
	w.annotated("low")
	w.annotated("low", "starved_resource", "pids")
	w.annotated("low", "starved_resource", "pids")
	want := []string{
		"2 map[offending_containers: starved_resource:memory] spec.containers{app}",
		"2 map[] spec.containers{app}",
		"3 map[starved_resource:pids] spec.containers{app}",
	}
	all := w.events()
	check.Fatal(t, check.Is(len(all), len(want), "%d events, want %d", len(all), len(want)))
	for i, e := range all {
		check.Equal(t, annotationsOf(e), want[i], "event %d", i)
	}
}

// TestAnnotationsOfCountedAgain: an event that the apiserver has deleted meanwhile has its annotations when it is made
// again.
func TestAnnotationsOfCountedAgain(t *testing.T) {
	w := newWorld(t, func(*Config) {})
	w.annotated("low", "starved_resource", "memory")
	check.Fatal(t, w.api.Delete(port.APIDelete{Key: port.APIKeyOf(w.events()[0])}))
	w.annotated("low", "starved_resource", "memory")
	if all := w.events(); len(all) != 1 || annotationsOf(all[0]) != "2 map[starved_resource:memory] spec.containers{app}" {
		t.Errorf("got %+v", all)
	}
}

// TestAnnotationsOfSimilar: what stands for many similar events does not have the annotations of one of them.
func TestAnnotationsOfSimilar(t *testing.T) {
	w := newWorld(t, func(*Config) {})
	for i := range 15 {
		w.annotated(fmt.Sprint("low ", i), "starved_resource", "memory")
	}
	together := 0
	for _, e := range w.events() {
		has := maps.Equal(e.Annotations, map[string]string{"starved_resource": "memory"})
		if strings.HasPrefix(e.Message, "(combined") {
			together++
			has = len(e.Annotations) == 0
		}
		if !has || e.InvolvedObject.FieldPath != "spec.containers{app}" {
			t.Errorf("%s: %s", e.Message, annotationsOf(e))
		}
	}
	check.Equal(t, together, 1, "%d stand for many", together)
}
