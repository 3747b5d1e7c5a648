package host

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

// filesPlugin is the directory of a kind of volume that is made of files.
func filesPlugin(v *v1.Volume) string {
	switch {
	case v.ConfigMap != nil:
		return "kubernetes.io~configmap"
	case v.Secret != nil:
		return "kubernetes.io~secret"
	case v.DownwardAPI != nil:
		return "kubernetes.io~downward-api"
	default:
		return "kubernetes.io~projected"
	}
}

// files brings a volume up that is made of files, or up to date.
func (h *Host) files(ctx context.Context, r *port.MountVolume) (string, error) {
	uid, err := podDir(string(r.Pod.UID))
	if err != nil {
		return "", err
	}
	dir := filepath.Join(uid, volumesDir, filesPlugin(r.Volume), r.Volume.Name)
	if r.Content.Memory {
		_, err = h.inMemory(dir, "tmpfs", h.exists(filepath.Join(dir, dataName)), r.Content.Group, func() (string, error) { return "", nil })
	} else {
		err = h.makeDir(dir, r.Content.Group)
	}
	if err != nil {
		return "", err
	}
	root, err := h.pods.root.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // what was written is not held by it
	f := &files{dir: root}
	if _, err := f.write(ctx, r.Content, time.Now()); err != nil {
		return "", err
	}
	return filepath.Join(h.pods.path, dir), nil
}

// mountedAt reports whether a file system of that type is mounted at a directory of
// ours; anything else that is mounted there is an error. A directory on the
// same device as the one above it is none: that saves reading all that is mounted.
func (h *Host) mountedAt(dir, kind string) (bool, error) {
	info, err := h.pods.root.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	above, err := h.pods.root.Lstat(filepath.Dir(dir))
	if err != nil {
		return false, err
	}
	if deviceOf(info) == deviceOf(above) {
		return false, nil
	}
	return h.typeAt(filepath.Join(h.pods.real, dir), kind)
}

func deviceOf(info fs.FileInfo) uint64 { return uint64(info.Sys().(*syscall.Stat_t).Dev) } //nolint:unconvert // of another size elsewhere

func ownerOf(info fs.FileInfo) (uid, gid int) {
	s := info.Sys().(*syscall.Stat_t)
	return int(s.Uid), int(s.Gid)
}

// unsupported says what a node can't do for a volume.
func unsupported(v *v1.Volume, kind string) error {
	if v.CSI != nil { // as it is said of a driver that is not there, which is so of all
		return fail(port.InvalidConfig, "driver name %s not found in the list of registered CSI drivers: this node does not support CSI", v.CSI.Driver)
	}
	return fail(port.InvalidConfig, "volume %q is of type %s, which this node does not support: "+
		"it supports emptyDir, hostPath, configMap, secret, downwardAPI, projected, image, nfs, and claims to local, nfs and hostPath volumes",
		v.Name, kind)
}
