package translate

import (
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/devices"
)

// plugged is what device plugins give to a container, apart from variables.
type plugged struct {
	mounts  []*runtimeapi.Mount
	devices []*runtimeapi.Device
	cdi     []*runtimeapi.CDIDevice
}

func pluggedDevices(g *devices.Given) (out plugged) {
	if g == nil {
		return out
	}
	for _, m := range g.Mounts {
		out.mounts = append(out.mounts, &runtimeapi.Mount{
			ContainerPath: m.ContainerPath, HostPath: m.HostPath, Readonly: m.ReadOnly,
		})
	}
	for _, d := range g.Nodes {
		out.devices = append(out.devices, &runtimeapi.Device{
			ContainerPath: d.ContainerPath, HostPath: d.HostPath, Permissions: d.Permissions,
		})
	}
	for _, name := range g.CDI {
		out.cdi = append(out.cdi, &runtimeapi.CDIDevice{Name: name})
	}
	return out
}
