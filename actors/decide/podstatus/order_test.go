package podstatus_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podstatus"
)

// TestOrder: init containers are shown in the order of the spec, the others by name. What is not ready is named in the
// order of the spec.
func TestOrder(t *testing.T) {
	in := baseInput()
	always := v1.ContainerRestartPolicyAlways
	in.Plan.Pod.Spec.InitContainers = []v1.Container{
		{Name: "z", Image: "img:1", RestartPolicy: &always}, {Name: "y", Image: "img:1", RestartPolicy: &always},
	}
	in.Plan.Pod.Spec.Containers = []v1.Container{
		{Name: "c", Image: "img:1"}, {Name: "a", Image: "img:1"}, {Name: "b", Image: "img:1"},
	}
	for _, name := range []string{"f", "e"} {
		e := v1.EphemeralContainer{}
		e.Name, e.Image = name, "img:1"
		in.Plan.Pod.Spec.EphemeralContainers = append(in.Plan.Pod.Spec.EphemeralContainers, e)
	}
	s := podstatus.Compute(in)
	got := ""
	for _, list := range [...][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			got += list[i].Name
		}
	}
	if got != "zyabcef" {
		t.Errorf("statuses in the order %s", got)
	}
	const want = "containers with unready status: [z y c b]"
	if c := podstatus.FindCondition(s.Conditions, v1.ContainersReady); c.Message != want {
		t.Errorf("%s, want %s", c.Message, want)
	}
	if ran := s.ContainerStatuses[0]; ran.ContainerID == "" || !ran.Ready {
		t.Errorf("%+v", ran)
	}
	in.Previous = &s
	if again := podstatus.Compute(in); !podstatus.Equal(&s, &again) || &again.ContainerStatuses[0] != &s.ContainerStatuses[0] {
		t.Error("another status of the same")
	}
}
