package host

import (
	"context"
	"path/filepath"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

// MountVolume implements port.Host for emptyDir and hostPath.
func (h *Host) MountVolume(ctx context.Context, pod *v1.Pod, volume *v1.Volume, done func(path string, err error)) {
	call(ctx, "MountVolume", objectOf(pod)+"/"+volume.Name, func(ctx context.Context) (string, error) {
		if err := element("volume name", volume.Name); err != nil {
			return "", err
		}
		switch {
		case volume.EmptyDir != nil:
			return h.emptyDir(ctx, pod, volume)
		case volume.HostPath != nil:
			return h.hostPath(ctx, volume.HostPath)
		case volumeType(&volume.VolumeSource) == "":
			// The API's default for a volume of which only the name is given.
			volume = &v1.Volume{Name: volume.Name, VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}
			return h.emptyDir(ctx, pod, volume)
		default:
			return "", fail(port.InvalidConfig,
				"volume %q is of type %s, which is not supported yet without a cluster: use emptyDir or hostPath",
				volume.Name, volumeType(&volume.VolumeSource))
		}
	}, done)
}

// volumeType is the name of the field of the API that is set, empty if none is.
func volumeType(s *v1.VolumeSource) string {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if !v.Field(i).IsNil() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return ""
}

// hostPath checks what the manifest says of the path. With no type nothing is
// checked: the runtime will.
func (h *Host) hostPath(ctx context.Context, s *v1.HostPathVolumeSource) (string, error) {
	if !filepath.IsAbs(s.Path) {
		return "", fail(port.InvalidConfig, "hostPath %q: must be an absolute path", s.Path)
	}
	if s.Type == nil || *s.Type == v1.HostPathUnset {
		return s.Path, nil
	}
	if _, fits := hostPathType(*s.Type); fits != nil {
		if all, err := h.mounts(); err == nil {
			if info, ok := statLocal(all, s.Path); ok && fits(info.Mode()) {
				return s.Path, nil
			}
		}
	}
	err := h.children.call(ctx, request{Op: opHostPath, Path: s.Path, Type: string(*s.Type)})
	if err != nil {
		return "", err
	}
	return s.Path, nil
}
