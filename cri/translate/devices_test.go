package translate

import (
	"fmt"
	"testing"

	"github.com/troupe-dev/troupe/actors/decide/devices"
)

func TestPluggedDevices(t *testing.T) {
	got := pluggedDevices(&devices.Given{
		Mounts: []devices.Mount{{ContainerPath: "/in", HostPath: "/out", ReadOnly: true}},
		Nodes:  []devices.Node{{ContainerPath: "/dev/in", HostPath: "/dev/out", Permissions: "rw"}},
		CDI:    []string{"example.com/gpu=0"},
	})
	if v := got.mounts; len(v) != 1 || v[0].ContainerPath != "/in" || v[0].HostPath != "/out" || !v[0].Readonly {
		t.Error(v)
	}
	if v := got.devices; len(v) != 1 || v[0].ContainerPath != "/dev/in" || v[0].HostPath != "/dev/out" || v[0].Permissions != "rw" {
		t.Error(v)
	}
	if v := got.cdi; len(v) != 1 || v[0].Name != "example.com/gpu=0" {
		t.Error(v)
	}
	if none := pluggedDevices(nil); fmt.Sprint(none) != fmt.Sprint(plugged{}) {
		t.Error(none)
	}
}
