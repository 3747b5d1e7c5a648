package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/volume/tmpfs"
)

// readyFile marks a volume as complete. A container may have changed its mode since, so a ready
// volume is left as it is.
const readyFile = "ready"

// emptyDir makes an emptyDir volume (API EmptyDirVolumeSource). size bounds one
// in memory, in bytes; 0 leaves that to the kernel: half the memory.
func (h *Volumes) emptyDir(pod *v1.Pod, name string, source *v1.EmptyDirVolumeSource, size int64) (string, error) {
	medium := source.Medium
	huge := strings.HasPrefix(string(medium), string(v1.StorageMediumHugePages))
	if medium != v1.StorageMediumDefault && medium != v1.StorageMediumMemory && !huge {
		return "", hostcall.Failf(port.InvalidConfig, "volume %q: unknown emptyDir medium %q", name, medium)
	}
	uid, err := agentdir.PodDir(string(pod.UID))
	if err != nil {
		return "", err
	}
	dir := filepath.Join(uid, volumesDir, emptyDirName, name)
	ready := filepath.Join(uid, pluginsDir, emptyDirName, name, readyFile)
	path := filepath.Join(h.pods.Path, dir)
	whole := h.exists(dir) && h.exists(ready)
	switch {
	case medium == v1.StorageMediumDefault:
		if whole {
			return path, nil
		}
		if err = h.makeDir(dir, podspec.FSGroup(pod)); err == nil {
			h.giveProject(pod, dir)
		}
	case huge:
		whole, err = h.inMemory(dir, "hugetlbfs", whole, podspec.FSGroup(pod), func() (string, error) {
			pages, err := volumeplan.EmptyDirPageSize(pod, medium)
			return fmt.Sprintf("pagesize=%d", pages), err
		})
	default:
		whole, err = h.inMemory(dir, "tmpfs", whole, podspec.FSGroup(pod), func() (string, error) {
			return tmpfs.Size(size), nil
		})
	}
	if err != nil || whole {
		return path, err
	}
	if err := h.pods.Root.MkdirAll(filepath.Dir(ready), agentdir.Mode); err != nil {
		return "", err
	}
	return path, h.pods.Root.WriteFile(ready, nil, readyFileMode)
}

func (h *Volumes) exists(name string) bool {
	_, err := h.pods.Root.Lstat(name)
	return err == nil
}

// makeDir makes the volume's directory, open to all users of the pod.
func (h *Volumes) makeDir(dir string, group *int64) error {
	if err := h.pods.Root.MkdirAll(filepath.Dir(dir), agentdir.Mode); err != nil {
		return err
	}
	if err := h.pods.Root.Mkdir(dir, emptyDirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// Again without the umask. With a group of its own, files made in it get it
	// (API PodSecurityContext.fsGroup).
	mode := os.FileMode(emptyDirMode)
	if group != nil {
		if err := h.pods.Root.Chown(dir, -1, int(*group)); err != nil {
			return fmt.Errorf("fsGroup: %w", err)
		}
		mode |= fs.ModeSetgid
	}
	return h.pods.Root.Chmod(dir, mode)
}

// inMemory mounts a tmpfs at dir, unless one is there, and reports whether there was nothing to
// do: the volume was complete and mounted. It cannot hang: no server is involved, and the
// directory is the agent's.
func (h *Volumes) inMemory(dir, kind string, whole bool, group *int64, options func() (string, error)) (bool, error) {
	mounted, err := h.mountedAt(dir, kind)
	if err != nil || mounted && whole {
		return mounted && whole, err
	}
	point := filepath.Join(h.pods.Real, dir)
	if !mounted {
		if err := h.makeDir(dir, nil); err != nil {
			return false, err
		}
		with, err := options()
		if err != nil {
			return false, hostcall.Failf(port.InvalidConfig, "%s", err.Error())
		}
		if err := tmpfs.Mount(point, kind, with); err != nil {
			return false, fmt.Errorf("mount %s at %s: %w", kind, point, err)
		}
	}
	mode := os.FileMode(emptyDirMode | fs.ModeSticky)
	if kind == "hugetlbfs" {
		mode = emptyDirMode
	}
	if group != nil {
		if err := os.Chown(point, -1, int(*group)); err != nil {
			return false, fmt.Errorf("fsGroup: %w", err)
		}
		mode |= fs.ModeSetgid
	}
	return false, os.Chmod(point, mode)
}

// typeAt reports whether a file system of that type is mounted there; anything else
// is an error.
func (h *Volumes) typeAt(point, kind string) (bool, error) {
	all, err := h.mounts()
	if err != nil {
		return false, err
	}
	mounted := false
	for _, m := range all {
		if m.Point != point {
			continue
		}
		if m.Type != kind {
			return false, hostcall.Failf(port.StateConflict, "%s is mounted at the path of the volume: unmount it", m)
		}
		mounted = true
	}
	return mounted, nil
}
