package devices_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/linear"
)

// TestMany: what is computed for each answer to pods grows with the devices that there are, and that containers have, and
// no faster.
func TestMany(t *testing.T) {
	ids := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("device-%06d", i))
		}
		return out
	}
	for name, work := range map[string]func(n int) func(){
		"health": func(n int) func() {
			r := &devices.Resource{Served: true}
			for _, id := range ids(n) {
				r.Devices = append(r.Devices, devices.Device{ID: id})
			}
			i := devices.Inventory{gpu: r}
			given := map[string][]devicestate.Grant{"c": {{Resource: gpu, IDs: map[int64][]string{0: ids(n)}}}}
			return func() { i.HealthOf(given) }
		},
		"what a container is created with": func(n int) func() {
			var r api.ContainerAllocateResponse
			for _, id := range ids(n) {
				r.Mounts = append(r.Mounts, &api.Mount{ContainerPath: id})
				r.Devices = append(r.Devices, &api.DeviceSpec{ContainerPath: id})
				r.CdiDevices = append(r.CdiDevices, &api.CDIDevice{Name: id})
			}
			grants := []devicestate.Grant{{Resource: gpu, Response: check.Value(proto.Marshal(&r))(t)}}
			return func() { check.Value(devices.GivenFor(grants))(t) }
		},
	} {
		t.Run(name, func(t *testing.T) { linear.Held(t, 1000, work) })
	}
}
