// Package tmpfs mounts file systems in memory.
package tmpfs

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// Size is the mount option that bounds one, in bytes; 0 leaves that to the kernel.
func Size(bytes int64) string {
	if bytes <= 0 {
		return ""
	}
	return "size=" + strconv.FormatInt(bytes, 10)
}

// Mount mounts a file system in memory, and keeps the pages of a tmpfs out of swap where the kernel can (since
// 6.4): what a pod asks to have in memory may be a secret.
func Mount(path, kind, options string) error {
	if kind != "tmpfs" {
		return unix.Mount("nodev", path, kind, 0, options)
	}
	with := "noswap"
	if options != "" {
		with += "," + options
	}
	err := unix.Mount("tmpfs", path, "tmpfs", 0, with)
	if errors.Is(err, unix.EINVAL) {
		err = unix.Mount("tmpfs", path, "tmpfs", 0, options)
	}
	return err
}

// KeepsMemory reports whether this kernel keeps a tmpfs out of swap. It mounts nothing. What can't be found out is no
// reason for an alarm.
func KeepsMemory() bool {
	fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return !errors.Is(err, unix.ENOSYS) // a kernel before 5.2
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was made
	return !errors.Is(unix.FsconfigSetFlag(fd, "noswap"), unix.EINVAL)
}
