package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/volume/beneath"
)

// inOwnVolumes parts the mounts that a pod has left in its emptyDirs (mountPropagation Bidirectional, FUSE) from
// others. The deepest come first. What is mounted in a part of an emptyDir, or of a volume of a CSI driver that no
// other pod has, that a container has by subPath is one of them.
func (h *Volumes) inOwnVolumes(pod string, all []mounts.Mount) (within, others []mounts.Mount) {
	volumes := filepath.Join(pod, volumesDir)
	for _, m := range all {
		rest := strings.TrimPrefix(m.Point, filepath.Join(h.pods.Real, pod)+"/")
		parts := strings.Split(rest, "/")
		in := len(parts) > 3 && filepath.Join(parts[:2]...) == filepath.Join(volumesDir, emptyDirName)
		ofPart := len(parts) > 4 && parts[0] == subPathsDir && (h.exists(filepath.Join(volumes, emptyDirName, parts[1])) ||
			h.exists(filepath.Join(volumes, csiPlugin, parts[1])) && h.isOnly(volumes, csiPlugin, parts[1]))
		if in || ofPart {
			within = append(within, m)
		} else {
			others = append(others, m)
		}
	}
	deepestFirst(within)
	return within, others
}

// isOnly says whether no other pod has a volume. volumes is the directory of those of a pod.
func (h *Volumes) isOnly(volumes, plugin, name string) bool {
	all, err := dirsOf(h.pods.Root.FS(), filepath.Join("*", volumesDir, plugin, name))
	own := filepath.Join(volumes, plugin, name)
	return err == nil && !slices.ContainsFunc(all, func(dir string) bool { return dir != own })
}

// unmountWithin unmounts what a pod has left in its emptyDir. The way there leads through what its processes have made
// and mounted: a child goes it.
func (h *Volumes) unmountWithin(ctx context.Context, m mounts.Mount) error {
	return h.unmountInChild(ctx, request{Path: m.Point, Source: h.pods.Real})
}

// unmountAt unmounts what is at path. With a home, which is above it, no link is followed on the way from there.
func unmountAt(home, path string, flags int) error {
	how := unix.UMOUNT_NOFOLLOW | flags
	if home == "" {
		return unmounted(path, unix.Unmount(path, how))
	}
	top, err := beneath.OpenVolume(home)
	if err != nil {
		return err
	}
	defer top.Close() //nolint:errcheck // nothing was written
	above, err := filepath.Rel(home, filepath.Dir(path))
	if err != nil {
		return err
	}
	fd, err := beneath.OpenWithoutLinks(top, above)
	if errors.Is(err, unix.ENOENT) {
		return nil // it was unmounted together with another one
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	return unmounted(path, unix.Unmount(fmt.Sprintf("/proc/self/fd/%d/%s", fd, filepath.Base(path)), how))
}

// unmountWhole unmounts what is at a path of the agent's, with what is mounted in it as find says.
func unmountWhole(path string, find func(path string) ([]mounts.Mount, error)) error {
	busy := unmountAt("", path, 0)
	if hostcall.KindOf(busy) != port.StateConflict {
		return busy
	}
	within, err := find(path)
	if err != nil || len(within) == 0 {
		return errors.Join(busy, err)
	}
	for _, m := range within {
		if err := unmountAt(path, m.Point, 0); err != nil {
			return err
		}
	}
	return unmountAt("", path, 0)
}

// detach takes away what is at a path of the agent's, also what is in use, with what is mounted within it.
func detach(path string) error {
	// A directory that has gone from its server can't be made private (ESTALE). What is within is of servers as well.
	_, _ = apart(path)
	return unix.Unmount(path, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
}

// apart is what is mounted within what is at a path of the agent's, the deepest first. It was mounted in the directory
// that is seen there, of the machine or of a server, and is to stay there. An unmount is seen wherever the mount above
// is shared (mount_namespaces(7)): so these are made private.
func apart(path string) ([]mounts.Mount, error) {
	within, err := mountedIn(path)
	if err != nil || len(within) == 0 {
		return nil, err
	}
	if err := unix.Mount("", path, "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("make the mount %s private: %w", path, err)
	}
	return within, nil
}

// mountedIn is what is mounted within a path, the deepest first.
func mountedIn(path string) ([]mounts.Mount, error) {
	all, err := mounts.Now()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(m mounts.Mount) bool { return !strings.HasPrefix(m.Point, path+"/") })
	deepestFirst(all)
	return all, nil
}

// deepestFirst sorts mounts for their unmounting. Of those at one point, the newest comes first.
func deepestFirst(all []mounts.Mount) {
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b mounts.Mount) int {
		return cmp.Compare(strings.Count(b.Point, "/"), strings.Count(a.Point, "/"))
	})
}

// ofAgent are the kinds of volumes whose content the agent makes and removes.
var ofAgent = [...]string{
	emptyDirName, configMapName, "kubernetes.io~secret", "kubernetes.io~downward-api", "kubernetes.io~projected",
}

// removeVolumes removes the directories of the volumes of a pod, when nothing is mounted there any more. Files stay in
// the directory of a volume that is only mounted there, or in a part of one: a container wrote them when it was not
// mounted, and somebody may need them.
func (h *Volumes) removeVolumes(ctx context.Context, dir string) error {
	for _, kind := range ofAgent {
		if err := h.pods.Remove(ctx, filepath.Join(dir, volumesDir), kind); err != nil {
			return err
		}
	}
	// A part is volume-subpaths/<volume>/<container>/<number>. It may be a file.
	const depthOfPart = 3
	err := h.pods.RemoveDirs(ctx, dir, subPathsDir, depthOfPart)
	if err == nil {
		err = h.pods.RemoveDirs(ctx, dir, volumesDir, 0)
	}
	// The markers last: while one is there, so is its volume.
	for _, sub := range [...]string{volumeDevicesDir, pluginsDir} {
		if err == nil {
			err = h.pods.Remove(ctx, dir, sub)
		}
	}
	return err
}
