package mounts

import (
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
	path = filepath.Clean(path)
	point, ok := localMount(all, path)
	if !ok {
		return nil, false
	}
	top, err := unix.Open(point, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	defer func() { _ = unix.Close(top) }()
	rest, err := filepath.Rel(point, path)
	if err != nil {
		return nil, false
	}
	fd, err := unix.Openat2(top, rest, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, false
	}
	f := os.NewFile(uintptr(fd), path)
	defer func() { _ = f.Close() }()
	info, err = f.Stat()
	return info, err == nil
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
