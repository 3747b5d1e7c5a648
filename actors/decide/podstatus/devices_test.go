package podstatus_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
)

// TestHealthOfDevices: a container shows how its devices are, and what was shown last for as long as that is not known.
func TestHealthOfDevices(t *testing.T) {
	is := func(h v1.ResourceHealthStatus) *cpus.Placement {
		return &cpus.Placement{Health: devicestate.Health{"a": {{
			Name: "gpu", Resources: []v1.ResourceHealth{{ResourceID: "0", Health: h}},
		}}}}
	}
	in := baseInput()
	in.Plan.Pod.Spec.Containers[0].Name = "a"
	for _, c := range []struct {
		name string
		at   *cpus.Placement
		want v1.ResourceHealthStatus
	}{
		{"not known yet", nil, ""},
		{"known", is(v1.ResourceHealthStatusHealthy), v1.ResourceHealthStatusHealthy},
		{"it fails", is(v1.ResourceHealthStatusUnhealthy), v1.ResourceHealthStatusUnhealthy},
		{"another agent, which does not know it yet", nil, v1.ResourceHealthStatusUnhealthy},
		{"its plugin may come soon", &cpus.Placement{}, v1.ResourceHealthStatusUnhealthy},
	} {
		in.Plan.Placement = c.at
		status := podstatus.Compute(in)
		got := status.ContainerStatuses[0].AllocatedResourcesStatus
		if len(got) == 0 && c.want != "" || len(got) > 0 && got[0].Resources[0].Health != c.want {
			t.Errorf("%s: %v, want %q", c.name, got, c.want)
		}
		in.Previous = &status
	}
}
