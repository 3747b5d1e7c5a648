package crilog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// place is where a log is: its directory, held open, and the name of the current file in it.
type place struct {
	dir  *os.File
	name string
}

// levels is how deep below the directory of all logs one lies: <pod>/<container>/<attempt>.log.
const levels = 3

// find opens the directory of a log. path is the runtime's word, and the directory of all logs is the node's. What is
// below that may have been replaced by a pod that can write there, for `kubectl logs` to read what is not its own. So
// no link there is followed.
//
// Some runtimes keep logs elsewhere, and the file at path is a link. It is followed if where that leads names the
// container.
func find(path, container string) (*place, error) {
	path = filepath.Clean(path)
	top := path
	for range levels {
		top = filepath.Dir(top)
	}
	p, err := placeBelow(top, path)
	if err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	err = unix.Fstatat(int(p.dir.Fd()), p.name, &stat, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil || stat.Mode&unix.S_IFMT != unix.S_IFLNK {
		return p, nil //nolint:nilerr // it is just being rotated, or not there: that is found later
	}
	p.close()
	to, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	if container == "" || !strings.Contains(to, container) {
		return nil, linked(path)
	}
	return placeBelow("/", to)
}

func linked(path string) error {
	return fmt.Errorf("%s, or a directory on its way, was replaced by a symbolic link, which is not followed: "+
		"remove the link", path)
}

// placeBelow opens the directory of path, following no link below top.
func placeBelow(top, path string) (*place, error) {
	dir, name := filepath.Split(path)
	rest, err := filepath.Rel(top, dir)
	if err != nil {
		return nil, err
	}
	at, err := unix.Open(top, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: top, Err: err}
	}
	defer func() { _ = unix.Close(at) }()
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	fd, err := unix.Openat2(at, rest, &unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if errors.Is(err, unix.ENOSYS) { // before Linux 5.6
		fd, err = step(at, rest, flags)
	}
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		return nil, linked(path)
	case err != nil:
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return &place{dir: os.NewFile(uintptr(fd), dir), name: name}, nil
}

// step opens one directory after the other, none of which is a link.
func step(at int, path string, flags int) (int, error) {
	fd, err := unix.Openat(at, ".", flags, 0)
	for name := range strings.SplitSeq(path, "/") {
		if err != nil {
			return -1, err
		}
		above := fd
		fd, err = unix.Openat(above, name, flags|unix.O_NOFOLLOW, 0)
		_ = unix.Close(above)
	}
	return fd, err
}

func (p *place) close() { p.dir.Close() } //nolint:errcheck // nothing was written

// path is where a file of the log is, for messages and watches.
func (p *place) path(name string) string { return filepath.Join(p.dir.Name(), name) }

// at opens a file of the log, which is no link.
func (p *place) at(name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(p.dir.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, linked(p.path(name))
	case err != nil:
		return nil, &os.PathError{Op: "open", Path: p.path(name), Err: err}
	}
	return os.NewFile(uintptr(fd), p.path(name)), nil
}

// stat is what is at the name of the current file.
func (p *place) stat() (os.FileInfo, error) {
	f, err := p.at(p.name, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	return f.Stat()
}

// list names what is in the directory, in order.
func (p *place) list() ([]os.DirEntry, error) {
	fd, err := unix.Openat(int(p.dir.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: p.dir.Name(), Err: err}
	}
	d := os.NewFile(uintptr(fd), p.dir.Name())
	defer d.Close() //nolint:errcheck // nothing was written
	entries, err := d.ReadDir(-1)
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}
