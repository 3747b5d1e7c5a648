package containerplan

import (
	"fmt"
	"path"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// badDevice is why a container can't have its block volumes; nil if it can.
func badDevice(in *Input) error {
	of := in.Paths.Index()
	for _, d := range in.Container.VolumeDevices {
		switch at, is := of(d.Name); {
		case !path.IsAbs(d.DevicePath):
			return fmt.Errorf("error DevicePath `%s` must be an absolute path", d.DevicePath)
		case !is || at == "":
			return fmt.Errorf("cannot find volume %q to pass into container %q", d.Name, in.Container.Name)
		}
	}
	return nil
}

// Devices are the block volumes of a container (volumeDevices). paths are those of the volumes.
func Devices(pod *v1.Pod, c *v1.Container, paths smallmap.Map[string, string]) (out []devices.Node) {
	of, volume := paths.Index(), podspec.VolumesOf(&pod.Spec)
	for _, d := range c.VolumeDevices {
		path, is := of(d.Name)
		if !is || path == "" {
			continue // the pod's volumes are up, so it is none of the pod
		}
		may := "mrw"
		v := volume(d.Name)
		if v != nil && v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly {
			may = "r"
		}
		out = append(out, devices.Node{ContainerPath: d.DevicePath, HostPath: path, Permissions: may})
	}
	return out
}
