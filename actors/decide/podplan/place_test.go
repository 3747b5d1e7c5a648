package podplan

import (
	"testing"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/placement"
)

func TestPlanPlaces(t *testing.T) {
	on := func(cpus string, had ...string) func(*Input) {
		return func(in *Input) {
			in.Placement = &placement.Pod{Shared: "0-3", Own: map[string]placement.Container{"a": {CPUs: cpus}}}
			for _, h := range had {
				in.Places = map[string]placement.Container{"a0": {CPUs: h}}
			}
		}
	}
	checkPlans(t, []planCase{
		{"anywhere", runInput, func(*Input) {}, ""},
		{"not known where it is", runInput, on("1"), "place a0 on 1"},
		{"there already", runInput, on("1", "1"), ""},
		{"elsewhere", runInput, on("1", "0-3"), "place a0 on 1"},
		{"shared", runInput, func(in *Input) { on("")(in); in.Placement.Own = nil }, "place a0 on 0-3"},
		{"under way", runInput, func(in *Input) { on("1")(in); busyWith(in, PlaceContainer{Name: "a", ID: "a0"}) }, ""},
	})
}

// TestPlaces: what was made or moved is known to be there, and what may have been moved is not.
func TestPlaces(t *testing.T) {
	at := placement.Container{CPUs: "2"}
	f := Facts{View: observed.Pod{Containers: []observed.Container{{ID: "a0", Name: "a", State: observed.ContainerRunning}}}}
	move := PlaceContainer{Name: "a", ID: "a0", To: at}
	move.succeeded(&f, Situation{}, Result{}, false)
	if f.Places["a0"] != at {
		t.Errorf("moved: %v", f.Places)
	}
	move.failed(&f, Problem{})
	if _, known := f.Places["a0"]; known {
		t.Errorf("failed: %v", f.Places)
	}
	CreateContainer{Name: "a", Placement: at}.succeeded(&f, Situation{}, Result{NewID: "a1"}, false)
	if f.Places["a1"] != at {
		t.Errorf("made: %v", f.Places)
	}
}
