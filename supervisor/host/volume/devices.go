package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/blockmount"
)

// localMounts is where devices of local volumes are mounted, one directory for each PersistentVolume, below the agent's
// root directory, as a kubelet has them. Each pod has a bind mount of that. It goes with the last pod.
const localMounts = "plugins/kubernetes.io/local-volume/mounts"

func (h *Volumes) globalMount(pv string) string {
	return filepath.Join(h.root, localMounts, pv)
}

// mountedDevice is the directory to bind: the source, or where it was mounted if it is a device. In a child.
func mountedDevice(r *request) (string, error) {
	info, err := os.Stat(r.Source)
	if err != nil || r.Device == nil || info.Mode()&(fs.ModeDevice|fs.ModeCharDevice) != fs.ModeDevice {
		return r.Source, nil //nolint:nilerr // it is opened next, and fails there
	}
	if err := os.MkdirAll(r.Global, agentdir.Mode); err != nil {
		return "", err
	}
	return r.Global, blockmount.Mount(r.Device, r.Global)
}

// GrowVolume implements port.Host.
func (h *Volumes) GrowVolume(ctx context.Context, r port.GrowVolume, done func(error)) {
	pv := r.Persistent
	hostcall.Do(ctx, "GrowVolume", pv.Name, func(ctx context.Context) error {
		if pv.Spec.Local == nil || podspec.IsDevice(pv) {
			return nil
		}
		if err := agentdir.Element("volume name", pv.Name); err != nil {
			return err
		}
		return bounded(ctx, r.Patience, func(ctx context.Context) error {
			return h.children.call(ctx, request{Op: opGrow, Path: h.globalMount(pv.Name), Source: pv.Spec.Local.Path})
		})
	}, done)
}

// growLocal grows the file system of a device, mounted at Path. A directory has the size of what it lies on. In a
// child.
func growLocal(r *request) error {
	info, err := os.Stat(r.Source)
	if err != nil {
		return err
	}
	if info.Mode()&(fs.ModeDevice|fs.ModeCharDevice) != fs.ModeDevice {
		return nil
	}
	return blockmount.Grow(r.Source, r.Path)
}

// releaseLocal unmounts devices of local volumes that a pod had, unless other pods have them. The pod's own mounts are
// gone by now, and their directories are not: they say which volumes it had.
func (h *Volumes) releaseLocal(ctx context.Context, dir string) error {
	names, err := h.pods.Names(filepath.Join(dir, volumesDir, localPlugin), nil)
	if err != nil {
		return err
	}
	for _, pv := range names {
		if err := h.releaseGlobal(ctx, h.globalMount(pv)); err != nil {
			return err
		}
	}
	return nil
}

// releaseGlobal unmounts a device. One that is being bound for another pod is busy, and is that pod's.
func (h *Volumes) releaseGlobal(ctx context.Context, point string) error {
	used, is, err := h.usesOf(point)
	if err != nil || used {
		return err
	}
	if is {
		err := h.children.call(ctx, request{Op: opUnmount, Path: point, Alone: true})
		if err != nil {
			if used, _, again := h.usesOf(point); again == nil && used {
				return nil
			}
			return err
		}
	}
	if err := unix.Rmdir(point); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EBUSY) {
		return hostcall.Failf(port.Other, "remove %s: %v", point, err)
	}
	return nil
}

// usesOf reports whether pods have what is mounted at a point, and whether something is.
func (h *Volumes) usesOf(point string) (used, is bool, err error) {
	all, err := h.mounts()
	if err != nil {
		return false, false, err
	}
	global := mounts.At(all, point)
	for _, m := range all {
		used = used || global != nil && m.Device == global.Device && strings.HasPrefix(m.Point, h.pods.Real+"/")
	}
	return used, global != nil, nil
}
