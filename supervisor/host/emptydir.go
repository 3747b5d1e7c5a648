package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

// readyFile says that the volume was made complete. A container may have
// changed its mode since: a volume that is ready is left as it is.
const readyFile = "ready"

// emptyDir makes an emptyDir volume (API EmptyDirVolumeSource).
func (h *Host) emptyDir(ctx context.Context, pod *v1.Pod, volume *v1.Volume) (string, error) {
	source := volume.EmptyDir
	switch {
	case source.Medium == v1.StorageMediumDefault, source.Medium == v1.StorageMediumMemory:
	case strings.HasPrefix(string(source.Medium), string(v1.StorageMediumHugePages)):
		return "", fail(port.InvalidConfig,
			"volume %q: emptyDir medium %s is not supported yet: use Memory, or leave medium out", volume.Name, source.Medium)
	default:
		return "", fail(port.InvalidConfig, "volume %q: unknown emptyDir medium %q", volume.Name, source.Medium)
	}
	uid, err := podDir(string(pod.UID))
	if err != nil {
		return "", err
	}
	dir := filepath.Join(uid, volumesDir, emptyDirName, volume.Name)
	ready := filepath.Join(uid, pluginsDir, emptyDirName, volume.Name, readyFile)
	path := filepath.Join(h.pods.path, dir)
	if source.Medium == v1.StorageMediumMemory {
		mounted, err := h.tmpfsAt(filepath.Join(h.pods.real, dir))
		if err != nil || mounted && h.exists(ready) {
			return path, err
		}
		if err := h.makeTmpfs(ctx, pod, volume, dir, mounted); err != nil {
			return "", err
		}
	} else {
		if h.exists(dir) && h.exists(ready) {
			return path, nil
		}
		if err := h.makeDir(dir, fsGroup(pod)); err != nil {
			return "", err
		}
	}
	if err := h.pods.root.MkdirAll(filepath.Dir(ready), podsMode); err != nil {
		return "", err
	}
	return path, h.pods.root.WriteFile(ready, nil, readyFileMode)
}

func (h *Host) exists(name string) bool {
	_, err := h.pods.root.Lstat(name)
	return err == nil
}

// makeDir makes the volume's directory, open to all users of the pod.
func (h *Host) makeDir(dir string, group *int64) error {
	if err := h.pods.root.MkdirAll(filepath.Dir(dir), podsMode); err != nil {
		return err
	}
	if err := h.pods.root.Mkdir(dir, emptyDirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// Again without the umask. With a group of its own, files made in it get it
	// (API PodSecurityContext.fsGroup).
	mode := os.FileMode(emptyDirMode)
	if group != nil {
		if err := h.pods.root.Chown(dir, -1, int(*group)); err != nil {
			return fmt.Errorf("fsGroup: %w", err)
		}
		mode |= fs.ModeSetgid
	}
	return h.pods.root.Chmod(dir, mode)
}

// makeTmpfs mounts the volume, unless it is mounted already.
func (h *Host) makeTmpfs(ctx context.Context, pod *v1.Pod, volume *v1.Volume, dir string, mounted bool) error {
	r := request{Op: opTmpfs, Path: filepath.Join(h.pods.real, dir), Group: fsGroup(pod), Mounted: mounted}
	if limit := volume.EmptyDir.SizeLimit; limit != nil && limit.Sign() > 0 {
		r.Size = limit.Value()
	}
	if !mounted {
		if err := h.makeDir(dir, nil); err != nil {
			return err
		}
	}
	return h.children.call(ctx, r)
}

// tmpfsAt says whether a tmpfs is mounted there; anything else is an error.
func (h *Host) tmpfsAt(point string) (bool, error) {
	all, err := h.mounts()
	if err != nil {
		return false, err
	}
	mounted := false
	for _, m := range all {
		if m.Point != point {
			continue
		}
		if m.Type != "tmpfs" {
			return false, fail(port.StateConflict, "%s is mounted where the volume belongs: unmount it", m)
		}
		mounted = true
	}
	return mounted, nil
}

func fsGroup(pod *v1.Pod) *int64 {
	if c := pod.Spec.SecurityContext; c != nil {
		return c.FSGroup
	}
	return nil
}
