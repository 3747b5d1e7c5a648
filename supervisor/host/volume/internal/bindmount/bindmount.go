// Package bindmount binds a directory into a pod, with options of its own. It may hang: a child does it.
package bindmount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
)

// ofMount are the mount options that a mount has for itself. Others are those of its file system: as with mount(8) they
// do not count for a bind mount.
var ofMount = map[string]struct{ set, unset uintptr }{
	"ro": {set: unix.MS_RDONLY}, "rw": {unset: unix.MS_RDONLY},
	"nosuid": {set: unix.MS_NOSUID}, "suid": {unset: unix.MS_NOSUID},
	"nodev": {set: unix.MS_NODEV}, "dev": {unset: unix.MS_NODEV},
	"noexec": {set: unix.MS_NOEXEC}, "exec": {unset: unix.MS_NOEXEC},
	"nosymfollow": {set: unix.MS_NOSYMFOLLOW}, "noatime": {set: unix.MS_NOATIME},
	"nodiratime": {set: unix.MS_NODIRATIME}, "relatime": {set: unix.MS_RELATIME},
	"strictatime": {set: unix.MS_STRICTATIME},
}

// inherited are the flags that a remount takes away unless it says them again. They have the same values in statfs(2).
const inherited = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// Restrict gives a bind mount its own mount options, beside those that it has from the mount of its source.
func Restrict(path string, options []string) error {
	var set, unset uintptr
	for _, o := range options {
		f := ofMount[o]
		set, unset = set&^f.unset|f.set, unset&^f.set|f.unset
	}
	if set|unset == 0 {
		return nil
	}
	var now unix.Statfs_t
	if err := unix.Statfs(path, &now); err != nil {
		return fmt.Errorf("statfs %s: %w", path, err)
	}
	flags := uintptr(now.Flags)&inherited&^unset | set
	if err := unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|flags, ""); err != nil {
		return fmt.Errorf("mount %s with options %s: %w", path, strings.Join(options, ","), err)
	}
	return nil
}

// Dir binds a directory. With mounted, something has to be mounted there.
func Dir(source, target string, mounted bool) error {
	fd, err := unix.Open(source, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return hostcall.Failf(port.InvalidConfig, "path %q does not exist", source)
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", source, err)
	}
	place := os.NewFile(uintptr(fd), source)
	defer place.Close() //nolint:errcheck // nothing was written
	info, err := place.Stat()
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return hostcall.Failf(port.InvalidConfig, "local volume %s is not a directory or a block device", source)
	}
	if mounted {
		above, err := os.Stat(filepath.Dir(source))
		if err == nil && deviceOf(above) == deviceOf(info) {
			err = hostcall.Failf(port.StateConflict, "%s was unmounted meanwhile", source)
		}
		if err != nil {
			return err
		}
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", fd), target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s at %s: %w", source, target, err)
	}
	return nil
}

// deviceOf is the file system that a file is on.
func deviceOf(info fs.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Dev }
