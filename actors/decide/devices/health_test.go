package devices_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/tests/check"
)

// statuses are entries as text: resource: device=health.
func statuses(all []v1.ResourceStatus) string {
	var out []string
	for _, s := range all {
		text := string(s.Name) + ":"
		for _, r := range s.Resources {
			text += fmt.Sprintf(" %s=%s", r.ResourceID, r.Health)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// TestHealth: what the status of a container says of its devices.
func TestHealth(t *testing.T) {
	listed := []devices.Device{{ID: "a", Healthy: true}, {ID: "b"}}
	grants := map[string][]devicestate.Grant{"c": {
		{Resource: "x/gpu", IDs: map[int64][]string{0: {"b", "a"}, 1: {"a", "z"}}},
		{Resource: "x/nic", IDs: map[int64][]string{devicestate.NoNUMA: {"n"}}},
	}}
	nic := &devices.Resource{Served: true, Devices: []devices.Device{{ID: "n", Healthy: true}}}
	for _, c := range []struct {
		name string
		gpu  *devices.Resource
		want string
	}{
		{"served", &devices.Resource{Served: true, Devices: listed}, "x/gpu: a=Healthy b=Unhealthy z=Unknown, x/nic: n=Healthy"},
		{"gone", &devices.Resource{Devices: listed}, "x/gpu: a=Unknown b=Unknown z=Unknown, x/nic: n=Healthy"},
		{"never there", nil, "x/gpu: a=Unknown b=Unknown z=Unknown, x/nic: n=Healthy"},
		{"may come soon", &devices.Resource{Awaited: true, Devices: listed}, "x/nic: n=Healthy"},
	} {
		i := devices.Inventory{"x/nic": nic}
		if c.gpu != nil {
			i["x/gpu"] = c.gpu
		}
		got := i.HealthOf(grants)
		check.Equal(t, statuses(got["c"]), c.want, "%s", c.name)
		if !got.Equal(i.HealthOf(grants)) {
			t.Errorf("%s: not equal to itself", c.name)
		}
	}
	healthy, sick := devices.Inventory{"x/nic": nic}.HealthOf(grants), devices.Inventory{}.HealthOf(grants)
	if healthy.Equal(sick) {
		t.Error("what differs is equal")
	}
	old := []v1.ResourceStatus{{Name: "claim:c"}, healthy["c"][1]}
	check.Equal(t, statuses(devicestate.HealthAfter(old, sick["c"][1:])), "claim:c:, x/nic: n=Unknown", "the newer one counts")
	if same := devicestate.HealthAfter(old, healthy["c"][1:]); &same[0] != &old[0] {
		t.Error("what has not changed is not shared")
	}
	if got := devicestate.HealthAfter(nil, nil); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}
