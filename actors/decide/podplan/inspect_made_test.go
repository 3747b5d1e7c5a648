package podplan

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// TestPostStartAfterMadeWasNotFound: the runtime does not know the container for a moment while it is started.
func TestPostStartAfterMadeWasNotFound(t *testing.T) {
	in := upInput()
	in.Pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{
		Sleep: &v1.SleepAction{Seconds: 1},
	}}
	made := alive("a", 0)
	made.State, made.StartedAt = observed.ContainerCreated, made.FinishedAt
	in.View.Containers = []observed.Container{made}
	s := Situation{Now: t0}
	f := &in.Facts
	start, read := StartContainer{Name: "a", ID: "a0"}, InspectMade{Name: "a", ID: "a0"}
	f.Begin(start, t0)
	f.Begin(read, t0)
	f.Failed(read, s, Problem{NotFound: true})
	f.Begin(ObservePod{}, t0)
	f.Succeeded(start, s, Result{})
	run := alive("a", 0)
	run.Detailed = false
	list := observed.Pod{Sandboxes: in.View.Sandboxes, Containers: []observed.Container{run}}
	f.Succeeded(ObservePod{}, s, Result{View: list})
	if got := said(Plan(in)); !strings.Contains(got, "postStart") {
		t.Errorf("the hook is not run: %q; %+v", got, f.Hooks)
	}
}

// TestEndIsReadWhileMadeHangs: a container ended, and the reading beside its start does not answer.
func TestEndIsReadWhileMadeHangs(t *testing.T) {
	in := upInput()
	made := alive("a", 0)
	made.State, made.StartedAt = observed.ContainerCreated, made.FinishedAt
	in.View.Containers = []observed.Container{made}
	f := &in.Facts
	start, read := StartContainer{Name: "a", ID: "a0"}, InspectMade{Name: "a", ID: "a0"}
	f.Begin(start, t0)
	f.Begin(read, t0)
	f.Succeeded(start, Situation{Now: t0}, Result{})
	f.Hint("a0", observed.ContainerStoppedEvent)
	if got := said(Plan(in)); !strings.Contains(got, "inspect a0") {
		t.Errorf("nothing reads how it ended: %q", got)
	}
}
