package csi

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestCheck breaks the invariant of the index, in both directions.
func TestCheck(t *testing.T) {
	at, k := decide.Target{Pod: "a", Name: "data"}, decide.Key{Driver: "d", Handle: "h"}
	v := &volume{Volume: &decide.Volume{Key: k, Targets: map[decide.Target]*decide.Publication{at: {}}}}
	a := &actor{volumes: newIndex()}
	a.volumes.add(v)
	const words = "byPod: it has v at t iff v.Targets has t"
	check.Says(t, a.Check(), words, "it is not in the index")
	a.volumes.note(v, at)
	check.Error(t, a.Check())
	delete(v.Targets, at)
	check.Says(t, a.Check(), words, "it is nowhere published")
	a.volumes.note(v, at)
	check.Error(t, a.Check())
	a.volumes.byPod["a"] = map[decide.Target][]*volume{at: {{Volume: &decide.Volume{
		Key: k, Targets: map[decide.Target]*decide.Publication{at: {}},
	}}}}
	check.Says(t, a.Check(), words, "one that is forgotten")
	delete(a.volumes.byPod, types.UID("a"))
	a.figures = map[string]*figures{"d": {}}
	a.figures["d"].Answered(&decide.Turn{}, time.Time{})
	check.Says(t, a.Check(), "at is zero in fresh only", "an answer at no time")
}
