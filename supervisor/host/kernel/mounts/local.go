package mounts

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// localTypes are file systems that need no server to answer: a look at one
// can't hang on a server.
var localTypes = map[string]bool{
	"bcachefs": true, "btrfs": true, "devtmpfs": true, "ext2": true, "ext3": true, "ext4": true, "f2fs": true,
	"hugetlbfs": true, "overlay": true, "ramfs": true, "rootfs": true, "tmpfs": true, "vfat": true,
	"xfs": true, "zfs": true,
}

// StatLocal looks at path without a child process, which costs more than all
// else that a hostPath does. It says ok only of what exists, and is reached
// through local file systems alone: the kernel is told to stay on the file
// system that path begins on (openat2(2), RESOLVE_NO_XDEV), wherever symbolic
// links lead. Whatever else there is to know, a child finds out.
func StatLocal(all []Mount, path string) (info fs.FileInfo, ok bool) {
	f, err := openLocal(all, path)
	if err != nil {
		return nil, false
	}
	defer func() { _ = f.Close() }()
	info, err = f.Stat()
	return info, err == nil
}

// IsLocal reports whether a path, as far as there is something, is reached through local file systems alone, and no
// other is mounted below it. Like StatLocal, it can't hang on a server.
func IsLocal(all []Mount, path string) bool {
	for _, m := range Below(all, filepath.Clean(path)) {
		if !m.Local() {
			return false
		}
	}
	f, err := openLocal(all, path)
	if err == nil {
		_ = f.Close()
	}
	// Before 5.6 the kernel can't be told to stay. What the mount table says has to do.
	return err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENOSYS)
}

// openLocal opens a path (O_PATH). It fails with EXDEV if it leads to another file system than it begins on, or begins
// on one that is not local.
func openLocal(all []Mount, path string) (*os.File, error) {
	path = filepath.Clean(path)
	point, ok := localMount(all, path)
	if !ok {
		return nil, unix.EXDEV
	}
	top, err := unix.Open(point, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(top) }()
	rest, err := filepath.Rel(point, path)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Openat2(top, rest, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// localMount is where the file system that path begins on is mounted, ok if it
// and all that lead to it are local.
func localMount(all []Mount, path string) (point string, ok bool) {
	for _, m := range all {
		if m.Point != path && m.Point != "/" && !strings.HasPrefix(path, m.Point+"/") {
			continue
		}
		if !m.Local() {
			return "", false
		}
		if len(m.Point) > len(point) {
			point = m.Point
		}
	}
	return point, point != ""
}
