package volume

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/atomicdir"
	"github.com/troupe-dev/troupe/supervisor/host/volume/tmpfs"
)

// filesPlugin is the directory of a kind of volume that is made of files.
func filesPlugin(v *v1.Volume) string {
	switch {
	case v.ConfigMap != nil:
		return configMapName
	case v.Secret != nil:
		return "kubernetes.io~secret"
	case v.DownwardAPI != nil:
		return "kubernetes.io~downward-api"
	default:
		return "kubernetes.io~projected"
	}
}

// manyBytes is how many bytes of files in memory are written without a question.
const manyBytes = 1 << 20

// files brings a volume up that is made of files, or up to date.
func (h *Volumes) files(ctx context.Context, r *port.MountVolume) (string, error) {
	uid, err := agentdir.PodDir(string(r.Pod.UID))
	if err != nil {
		return "", err
	}
	dir := filepath.Join(uid, volumesDir, filesPlugin(r.Volume), r.Volume.Name)
	if r.Content.Memory {
		_, err = h.inMemory(dir, "tmpfs", atomicdir.Written(h.pods.Root, dir), r.Content.Group,
			func() (string, error) { return tmpfs.Size(r.Size), nil })
	} else {
		err = h.makeDir(dir, r.Content.Group)
	}
	if err != nil {
		return "", err
	}
	root, err := h.pods.Root.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // what was written is not held by it
	bound := func() (func(fs.FileInfo) bool, error) { return h.boundOf(uid, r.Volume.Name) }
	var room func(int64) error
	if bytes := r.Content.Bytes(); r.Content.Memory && bytes > manyBytes && h.room != nil {
		select { // one after the other: each is told what is left
		case h.roomTurn <- struct{}{}:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		defer func() { <-h.roomTurn }()
		room = func(old int64) error {
			if err := h.room(bytes, old); err != nil {
				return hostcall.Failf(port.InvalidConfig, "the files of volume %q, in memory, take %s: %v", r.Volume.Name,
					resource.NewQuantity(bytes, resource.BinarySI), err)
			}
			return nil
		}
	}
	err = atomicdir.Write(ctx, root, r.Content, time.Now(), bound, room)
	if r.Content.Memory && r.Size > 0 && errors.Is(err, syscall.ENOSPC) {
		return "", hostcall.Failf(port.InvalidConfig, "the files of volume %q, in memory, take more than %s: a volume may "+
			"have as much as the pod's memory limit, or what the node has for pods",
			r.Volume.Name, resource.NewQuantity(r.Size, resource.BinarySI))
	}
	if err != nil {
		return "", err
	}
	return filepath.Join(h.pods.Path, dir), nil
}

// mountedAt reports whether a file system of that type is mounted at a directory of
// ours; anything else that is mounted there is an error. A directory on the
// same device as the one above it is none: that saves reading all that is mounted.
func (h *Volumes) mountedAt(dir, kind string) (bool, error) {
	info, err := h.pods.Root.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	above, err := h.pods.Root.Lstat(filepath.Dir(dir))
	if err != nil {
		return false, err
	}
	if deviceOf(info) == deviceOf(above) {
		return false, nil
	}
	return h.typeAt(filepath.Join(h.pods.Real, dir), kind)
}

func deviceOf(info fs.FileInfo) uint64 {
	return uint64(info.Sys().(*syscall.Stat_t).Dev) //nolint:unconvert // of another size elsewhere
}

// unsupported is the error for a volume type that the node does not support.
func unsupported(v *v1.Volume, kind string) error {
	if v.CSI != nil { // the kubelet's message for a missing driver: here all are missing
		return hostcall.Failf(port.InvalidConfig,
			"driver name %s not found in the list of registered CSI drivers: this node does not support CSI", v.CSI.Driver)
	}
	return hostcall.Failf(port.InvalidConfig, "volume %q is of type %s, which this node does not support: "+
		"it supports emptyDir, hostPath, configMap, secret, downwardAPI, projected, image, nfs, iscsi, fc, and claims "+
		"to local, hostPath, nfs, iscsi and fc volumes",
		v.Name, kind)
}
