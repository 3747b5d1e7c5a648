// Package unmount takes down what is mounted at a path, and what is mounted within it. It may hang, as what is mounted
// may be of a server that does not answer: a child does it, but for file systems of this machine.
package unmount

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/volume/beneath"
)

// At unmounts what is at path. With a home, which is above it, no link is followed on the way from there.
func At(home, path string, flags int) error {
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

// Whole unmounts what is at a path of the agent's, with what is mounted in it as find says.
func Whole(path string, find func(path string) ([]mounts.Mount, error)) error {
	busy := At("", path, 0)
	if hostcall.KindOf(busy) != port.StateConflict {
		return busy
	}
	within, err := find(path)
	if err != nil || len(within) == 0 {
		return errors.Join(busy, err)
	}
	for _, m := range within {
		if err := At(path, m.Point, 0); err != nil {
			return err
		}
	}
	return At("", path, 0)
}

// Detach takes away what is at a path of the agent's, also what is in use, with what is mounted within it.
func Detach(path string) error {
	// A directory that has gone from its server can't be made private (ESTALE). What is within is of servers as well.
	_, _ = Apart(path)
	return unix.Unmount(path, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
}

// Apart is what is mounted within what is at a path of the agent's, the deepest first. It was mounted in the directory
// that is seen there, of the machine or of a server, and is to stay there. An unmount is seen wherever the mount above
// is shared (mount_namespaces(7)): so these are made private.
func Apart(path string) ([]mounts.Mount, error) {
	within, err := Within(path)
	if err != nil || len(within) == 0 {
		return nil, err
	}
	if err := unix.Mount("", path, "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("make the mount %s private: %w", path, err)
	}
	return within, nil
}

// Within is what is mounted within a path, the deepest first.
func Within(path string) ([]mounts.Mount, error) {
	all, err := mounts.Now()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(m mounts.Mount) bool { return !strings.HasPrefix(m.Point, path+"/") })
	DeepestFirst(all)
	return all, nil
}

// DeepestFirst sorts mounts for their unmounting. Of those at one point, the newest comes first.
func DeepestFirst(all []mounts.Mount) {
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b mounts.Mount) int {
		return cmp.Compare(strings.Count(b.Point, "/"), strings.Count(a.Point, "/"))
	})
}

// unmounted is the error of an unmount.
func unmounted(path string, err error) error {
	switch {
	case err == nil, errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT): // not mounted, or gone
		return nil
	case errors.Is(err, unix.EBUSY):
		return hostcall.Failf(port.StateConflict, "unmount %s: it is in use by a process", path)
	}
	return fmt.Errorf("unmount %s: %w", path, err)
}
