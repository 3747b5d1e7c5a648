package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/supervisor/host/mounts"
)

// inEmptyDirs parts the mounts that a pod has left in its emptyDirs (mountPropagation Bidirectional, FUSE) from others.
// The deepest come first. What is mounted in a part of an emptyDir that a container has by subPath is one of them.
func (h *Host) inEmptyDirs(pod string, all []mounts.Mount) (within, others []mounts.Mount) {
	volumes := filepath.Join(pod, volumesDir, emptyDirName)
	for _, m := range slices.Backward(all) {
		rest := strings.TrimPrefix(m.Point, filepath.Join(h.pods.Real, pod)+"/")
		parts := strings.Split(rest, "/")
		in := len(parts) > 3 && filepath.Join(parts[:2]...) == filepath.Join(volumesDir, emptyDirName)
		ofPart := len(parts) > 4 && parts[0] == subPathsDir && h.exists(filepath.Join(volumes, parts[1]))
		if in || ofPart {
			within = append(within, m)
		} else {
			others = append(others, m)
		}
	}
	slices.SortStableFunc(within, func(a, b mounts.Mount) int {
		return cmp.Compare(strings.Count(b.Point, "/"), strings.Count(a.Point, "/"))
	})
	slices.Reverse(others)
	return within, others
}

// unmountWithin unmounts what a pod has left in its emptyDir. The way there leads through what its processes have made
// and mounted: a child goes it.
func (h *Host) unmountWithin(ctx context.Context, m mounts.Mount) error {
	return h.unmountInChild(ctx, request{Path: m.Point, Source: h.pods.Real})
}

// unmountAt unmounts what is at path. With a home, which is above it, no link is followed on the way from there.
func unmountAt(home, path string, flags int) error {
	how := unix.UMOUNT_NOFOLLOW | flags
	if home == "" {
		return unmounted(path, unix.Unmount(path, how))
	}
	top, err := openVolume(home)
	if err != nil {
		return err
	}
	defer top.Close() //nolint:errcheck // nothing was written
	above, err := filepath.Rel(home, filepath.Dir(path))
	if err != nil {
		return err
	}
	fd, err := openWithoutLinks(top, above)
	if errors.Is(err, unix.ENOENT) {
		return nil // it was unmounted together with another one
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	return unmounted(path, unix.Unmount(fmt.Sprintf("/proc/self/fd/%d/%s", fd, filepath.Base(path)), how))
}

// ofAgent are the kinds of volumes whose content the agent makes and removes.
var ofAgent = [...]string{
	emptyDirName, configMapName, "kubernetes.io~secret", "kubernetes.io~downward-api", "kubernetes.io~projected",
}

// removeVolumes removes the directories of the volumes of a pod, when nothing is mounted there any more. Files stay in
// the directory of a volume that is only mounted there, or in a part of one: a container wrote them when it was not
// mounted, and somebody may need them.
func (h *Host) removeVolumes(ctx context.Context, dir string) error {
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
