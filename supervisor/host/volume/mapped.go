package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/blockdevice"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/volume/blockmap"
)

// Directories of devices (volumeMode Block), below the agent's root directory, as a kubelet has them. Each has the
// files of the pods that have the device (package blockmap).
const (
	localDevices = "plugins/kubernetes.io~local-volume/" + volumeDevicesDir
	diskDevices  = "plugins/kubernetes.io"
)

// deviceFiles are the patterns of the files of a pod, without its UID.
var deviceFiles = [...]string{
	localDevices + "/*",
	diskDevices + "/" + blockdevice.ISCSIDir + "/" + volumeDevicesDir + "/iface-*/*",
	diskDevices + "/" + blockdevice.FCDir + "/" + volumeDevicesDir + "/*",
}

// mapOf is where a pod has a device. dir is that of the device.
func (h *Volumes) mapOf(uid, plugin, name, dir string) (m blockmap.Map, err error) {
	if uid, err = agentdir.PodDir(uid); err != nil {
		return m, err
	}
	m.File = filepath.Join(dir, uid)
	m.Link = filepath.Join(h.pods.Real, uid, volumeDevicesDir, plugin, name)
	return m, agentdir.Element("volume name", name)
}

// mapLocal maps the device of a local volume. The path is that of the device.
func (h *Volumes) mapLocal(ctx context.Context, r *port.MountVolume, pv *v1.PersistentVolume) (string, error) {
	m, err := h.mapOf(string(r.Pod.UID), localPlugin, pv.Name, filepath.Join(h.root, localDevices, pv.Name))
	if err == nil {
		err = h.alone(r, localPlugin, pv.Name)
	}
	if err != nil {
		return "", err
	}
	return m.File, h.children.call(ctx, request{
		Op: opMap, Path: m.File, Source: pv.Spec.Local.Path, Map: &m, pod: string(r.Pod.UID),
	})
}

// mapDisk attaches a disk, and maps it into a pod.
func (h *Volumes) mapDisk(
	ctx context.Context, r *port.MountVolume, plugin, name string, ask diskRequest,
) (string, error) {
	a, err := h.disks.open()
	if err != nil {
		return "", err
	}
	ask.Block = true
	m, err := h.mapOf(string(r.Pod.UID), plugin, name, filepath.Join(a.Real, ask.Dir()))
	if err == nil {
		err = h.alone(r, plugin, name)
	}
	if err != nil {
		return "", err
	}
	ask.Map = &m
	set := request{Op: opDisk, Path: m.File, Disk: &ask, pod: string(r.Pod.UID)}
	release, err := h.target(ctx, &set)
	if err != nil {
		return "", err
	}
	defer release()
	if err := h.noteDisk(string(r.Pod.UID), plugin, name, &ask.Used); err != nil {
		return "", err
	}
	if err := noteShared(a, &ask.Used); err != nil {
		return "", err
	}
	return m.File, h.children.call(ctx, set)
}

// mapped are the files of the devices that a pod has, or may have in part.
func (h *Volumes) mapped(pod string) (out []string, err error) {
	root := os.DirFS(h.root)
	for _, pattern := range deviceFiles {
		dirs, err := dirsOf(root, pattern)
		if err != nil {
			return nil, err
		}
		for _, dir := range dirs {
			file := filepath.Join(h.root, dir, pod)
			if _, err := os.Lstat(file); err == nil {
				out = append(out, file)
			} else if !notThere(err) {
				return nil, err
			}
		}
	}
	return out, nil
}

// dirsOf are the directories, and links, of a pattern with stars, in order. fs.Glob gives fewer if a directory can't be
// read: what is in use would be taken for free, and what is to be undone would stay.
func dirsOf(root fs.FS, pattern string) ([]string, error) {
	out := []string{"."}
	for element := range strings.SplitSeq(pattern, "/") {
		var next []string
		for _, dir := range out {
			if !strings.Contains(element, "*") {
				next = append(next, path.Join(dir, element))
				continue
			}
			entries, err := fs.ReadDir(root, dir)
			if err != nil && !notThere(err) {
				return nil, err
			}
			for _, e := range entries {
				is, err := path.Match(element, e.Name())
				if err != nil {
					return nil, err
				}
				if is && (e.IsDir() || e.Type() == fs.ModeSymlink) {
					next = append(next, path.Join(dir, e.Name()))
				}
			}
		}
		out = next
	}
	return out, nil
}

// notThere reports whether an error says that nothing is at a path, also because something on it is no directory.
func notThere(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

// unmapDevices takes the devices of a pod away from it. The links stay until all is done: they say that it had some.
func (h *Volumes) unmapDevices(ctx context.Context, pod string) error {
	files, err := h.mapped(pod)
	for _, file := range files {
		if err == nil {
			err = h.children.call(ctx, request{Op: opUnmap, Path: file})
		}
	}
	return err
}

// releaseMaps removes the directories of the devices of local volumes that a pod had, unless other pods have them.
func (h *Volumes) releaseMaps(pod string) error {
	links, err := fs.ReadDir(h.pods.Root.FS(), filepath.Join(pod, volumeDevicesDir, localPlugin))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, l := range links {
		os.Remove(filepath.Join(h.root, localDevices, l.Name())) //nolint:errcheck // other pods may have the device
	}
	return err
}

// withoutDevices fails while a pod has devices.
func (h *Volumes) withoutDevices(pod string) error {
	if !h.exists(filepath.Join(pod, volumeDevicesDir)) {
		return nil
	}
	files, err := h.mapped(pod)
	if err != nil || len(files) == 0 {
		return err
	}
	return hostcall.Failf(port.StateConflict, "nothing was removed: the pod still has the device at %s", files[0])
}

// noteMaps makes notes for disks that a kubelet has mapped into a pod.
func (h *Volumes) noteMaps(pod string) error {
	files, err := h.mapped(pod)
	if err != nil || len(files) == 0 {
		return err
	}
	notes, _ := h.notesOf(pod) // those that can't be read are written again
	known := map[string]bool{}
	for i := range notes {
		known[notes[i].Dir()] = true
	}
	for _, file := range files {
		dir := strings.TrimPrefix(filepath.Dir(file), filepath.Join(h.root, diskDevices)+"/")
		if !ofDisk(dir) || known[dir] {
			continue
		}
		u, err := blockdevice.OfDir(dir)
		if err != nil {
			return hostcall.Failf(port.StateConflict, "nothing was unmapped: %s: %v", file, err)
		}
		plugin := iscsiPlugin
		if u.FC != nil {
			plugin = fcPlugin
		}
		if err := h.writeNote(pod, plugin, h.nameOf(pod, plugin, file), &u); err != nil {
			return err
		}
	}
	return nil
}

// nameOf is the name of the volume whose device is at a file: that of the link to the same device. A kubelet that was
// killed may have removed the link: then it is one that no volume has.
func (h *Volumes) nameOf(pod, plugin, file string) string {
	links, err := fs.ReadDir(h.pods.Root.FS(), filepath.Join(pod, volumeDevicesDir, plugin))
	if err == nil {
		for _, l := range links {
			if blockmap.Same(filepath.Join(h.pods.Real, pod, volumeDevicesDir, plugin, l.Name()), file) {
				return l.Name()
			}
		}
	}
	return blockmap.Name(file)
}
