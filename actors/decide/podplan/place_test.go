package podplan

import (
	"testing"

	decide "github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/observed"
)

func TestPlanPlaces(t *testing.T) {
	on := func(cpus string, had ...string) func(*Input) {
		return func(in *Input) {
			in.Placement = &decide.Placement{Shared: "0-3", Own: map[string]decide.ContainerPlacement{"a": {CPUs: cpus}}}
			for _, h := range had {
				in.Places = map[string]decide.ContainerPlacement{"a0": {CPUs: h}}
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

// TestInPlace: whether all that runs, or is being made, is where it is to be. Until then a resize of CPUs goes on.
func TestInPlace(t *testing.T) {
	big := sized(200, 128)
	at := func(cpus string) map[string]decide.ContainerPlacement {
		return map[string]decide.ContainerPlacement{"a0": {CPUs: cpus}}
	}
	for _, c := range []struct {
		name   string
		base   func() Input
		change func(*Input)
		want   bool
	}{
		{"there", runInput, func(in *Input) { in.Places = at("1") }, true},
		{"elsewhere", runInput, func(in *Input) { in.Places = at("0-3") }, false},
		{"on its way", runInput, func(in *Input) { busyWith(in, PlaceContainer{Name: "a", ID: "a0"}) }, false},
		{"made elsewhere, and not started", upInput, func(in *Input) { containers(in, created("a", 0)); in.Places = at("2") }, false},
		{"made there, and not started", upInput, func(in *Input) { containers(in, created("a", 0)); in.Places = at("1") }, true},
		{"being made elsewhere", upInput, func(in *Input) {
			busyWith(in, CreateContainer{Name: "a", Placement: decide.ContainerPlacement{CPUs: "2"}})
		}, false},
		{"being made there", upInput, func(in *Input) {
			busyWith(in, CreateContainer{Name: "a", Placement: decide.ContainerPlacement{CPUs: "1"}})
		}, true},
		{"not made", upInput, func(*Input) {}, true},
		{"dead", upInput, func(in *Input) { containers(in, exited("a", 0, 0, 0)) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := c.base()
			in.Placement = &decide.Placement{Shared: "0-3", Own: map[string]decide.ContainerPlacement{"a": {CPUs: "1"}}, Number: 7}
			resizing(&in, big, big)
			c.change(&in)
			out := Plan(in)
			if out.InPlace != c.want || !c.want && !out.Resizing.InProgress {
				t.Errorf("in place: %t, resizing: %+v; want %t", out.InPlace, out.Resizing, c.want)
			}
		})
	}
	in := runInput()
	in.Placement = &decide.Placement{Own: map[string]decide.ContainerPlacement{"a": {CPUs: "1"}}, Number: 7}
	resizing(&in, big, big)
	failedLane(&in, Lane{Kind: LanePlace, Name: "a0"}, 1, 0, "PlaceContainerError")
	if out := Plan(in); out.Resizing.Problem == "" {
		t.Error("nobody is told why the resize does not go on")
	}
}

// TestPlaces: what was made or moved is known to be there, and what may have been moved is not.
func TestPlaces(t *testing.T) {
	at := decide.ContainerPlacement{CPUs: "2"}
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
