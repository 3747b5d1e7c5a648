package volume

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/hostpath"
)

// MountVolume implements port.Host.
func (h *Volumes) MountVolume(ctx context.Context, r port.MountVolume, done func(path string, err error)) {
	hostcall.Get(ctx, "MountVolume", hostcall.Pod(r.Pod)+"/"+r.Volume.Name, func(ctx context.Context) (string, error) {
		path, err := h.mountVolume(ctx, &r)
		switch {
		case r.Content != nil:
			h.last.ForgetSize(string(r.Pod.UID), r.Volume.Name) // also if it failed
		case err == nil && (r.Persistent != nil || r.Volume.NFS != nil || r.Volume.ISCSI != nil):
			h.last.SetPlace(string(r.Pod.UID), r.Volume.Name, path)
		}
		return path, err
	}, done)
}

func (h *Volumes) mountVolume(ctx context.Context, r *port.MountVolume) (string, error) {
	v := r.Volume
	if err := agentdir.Element("volume name", v.Name); err != nil {
		return "", err
	}
	if r.Content != nil || r.Persistent == nil && (v.EmptyDir != nil || volumeType(&v.VolumeSource) == "") {
		release, err := h.making.take(ctx, string(r.Pod.UID))
		if err != nil {
			return "", err
		}
		defer release()
	}
	switch {
	case r.Content != nil:
		return h.files(ctx, r)
	case r.Persistent != nil:
		return h.persistent(ctx, r)
	case v.NFS != nil:
		return h.nfs(ctx, r, v.Name, v.NFS, nil)
	case v.ISCSI != nil:
		return h.iscsi(ctx, r, v.Name)
	case v.FC != nil:
		return h.fc(ctx, r, v.Name)
	case v.FlexVolume != nil:
		return "", flexVolume(fmt.Sprintf("volume %q", v.Name), v.FlexVolume.Driver)
	case v.Image != nil:
		return "", nil // the runtime mounts it
	case v.EmptyDir != nil:
		return h.emptyDir(r.Pod, v.Name, v.EmptyDir, r.Size)
	case v.HostPath != nil:
		return h.hostPath(ctx, r.Pod, v.HostPath)
	case volumeType(&v.VolumeSource) == "":
		// The API's default for a volume with only a name.
		return h.emptyDir(r.Pod, v.Name, &v1.EmptyDirVolumeSource{}, 0)
	default:
		return "", unsupported(v, volumeType(&v.VolumeSource))
	}
}

// flexVolume says what to do instead of a FlexVolume.
func flexVolume(what, driver string) error {
	return hostcall.Failf(port.InvalidConfig, "%s is a FlexVolume (driver %q), which this node does not support: "+
		"FlexVolume is deprecated in Kubernetes: use a CSI driver for this storage", what, driver)
}

// volumeType is the name of the field of a v1.VolumeSource or
// v1.PersistentVolumeSource that is set, empty if none is.
func volumeType(s any) string {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if !v.Field(i).IsNil() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return ""
}

// hostPath checks the path against its type. Without a type nothing is checked: the runtime does
// that.
func (h *Volumes) hostPath(ctx context.Context, pod *v1.Pod, s *v1.HostPathVolumeSource) (string, error) {
	if !filepath.IsAbs(s.Path) {
		return "", hostcall.Failf(port.InvalidConfig, "hostPath %q: must be an absolute path", s.Path)
	}
	if s.Type == nil || *s.Type == v1.HostPathUnset {
		return s.Path, nil
	}
	if _, fits := hostpath.Type(*s.Type); fits != nil {
		if all, err := h.mounts(); err == nil {
			if info, ok := mounts.StatLocal(all, s.Path); ok && fits(info.Mode()) {
				return s.Path, nil
			}
		}
	}
	err := h.children.call(ctx, request{Op: opHostPath, Path: s.Path, Type: string(*s.Type), pod: string(pod.UID)})
	if err != nil {
		return "", err
	}
	return s.Path, nil
}
