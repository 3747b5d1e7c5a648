package mounts

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Share makes what pods mount below a directory visible to this machine and to other pods (mountPropagation
// Bidirectional and HostToContainer), as a kubelet does with its root directory: if the file system that it is on is
// not shared, it is mounted on itself, and that mount is shared. made is whether it did that; [Unshare] takes it
// back.
//
// With other mounts below the directory it does nothing, and says which: they would be below the new mount, where
// nobody can unmount them any more, and so no pod could be removed that has one.
func Share(dir string) (made bool, err error) {
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return false, err
	}
	all, err := Now()
	if err != nil {
		return false, err
	}
	on := Of(all, dir)
	switch below := Below(all, dir); {
	case on == nil:
		return false, fmt.Errorf("%s: the mount table does not have the file system that it is on", dir)
	case on.Shared:
		return false, nil
	case on.Point == dir: // somebody has mounted it there, and what is below it may stay where it is
		return false, shared(dir)
	case len(below) > 0:
		return false, fmt.Errorf("%s is not on a shared mount, and can't be made one while %s is mounted below it",
			dir, below[0])
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return false, fmt.Errorf("mount %s on itself: %w", dir, err)
	}
	if err := shared(dir); err != nil {
		return false, errors.Join(err, Unshare(dir))
	}
	return true, nil
}

func shared(dir string) error {
	if err := unix.Mount("", dir, "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make the mount %s shared: %w", dir, err)
	}
	return nil
}

// Unshare takes back what [Share] has made, unless something is mounted below the directory: it would be gone, too. The
// directory may be in use.
func Unshare(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	all, err := Now()
	if err != nil || len(Below(all, dir)) != 1 {
		return err
	}
	if err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}
