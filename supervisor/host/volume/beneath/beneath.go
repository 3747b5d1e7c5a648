// Package beneath opens what a path leads to in a volume of a pod, and never what is outside of it. Containers with the
// volume may change any of it at any moment: so the kernel resolves the path, or each element is opened without links.
package beneath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
)

// OpenVolume opens the volume itself, which a hostPath may reach through links
// of its own: they are the node's.
func OpenVolume(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// OpenOrMake opens sub in the volume. It makes missing directories with the mode and, if it
// has one, the group of the volume's own directory.
func OpenOrMake(volume *os.File, sub string) (*os.File, error) {
	info, err := volume.Stat()
	if err != nil {
		return nil, err
	}
	at, made := ".", volume
	for name := range strings.SplitSeq(filepath.Clean(sub), "/") {
		at = filepath.Join(at, name)
		// With a slash, what an automounter has there is mounted (openat(2), O_PATH). What it says counts for nothing.
		_ = unix.Fstatat(int(made.Fd()), name+"/", &unix.Stat_t{}, unix.AT_SYMLINK_NOFOLLOW)
		next, where, err := openInVolume(volume, at)
		if errors.Is(err, unix.ENOENT) {
			if err = makeIn(made, name, info); err == nil || errors.Is(err, unix.EEXIST) {
				next, where, err = openInVolume(volume, at)
			}
		}
		if made != volume {
			made.Close() //nolint:errcheck // nothing was written
		}
		if err != nil {
			return nil, err
		}
		made, at = next, where
	}
	return made, nil
}

// Open opens a path below dir. Links are followed as long as they stay
// below dir; where the kernel can't see to that (before 5.6), none is.
func Open(dir *os.File, path string) (*os.File, error) {
	fd, err := unix.Openat2(int(dir.Fd()), path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	})
	if errors.Is(err, unix.EAGAIN) { // something was renamed meanwhile: the kernel could not be sure
		err = unix.ELOOP
	}
	if errors.Is(err, unix.ENOSYS) {
		fd, err = OpenWithoutLinks(dir, path)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), filepath.Join(dir.Name(), path)), nil
}

// openInVolume is Open, and follows also links that come back: those with a path on the node that leads to what
// is in the volume. It says where that is. This asks what such a path leads through, so a child does it.
func openInVolume(volume *os.File, path string) (f *os.File, where string, err error) {
	f, err = Open(volume, path)
	if !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.ELOOP) {
		return f, path, err
	}
	where, inside := resolved(volume.Name(), path)
	if !inside {
		return nil, "", err
	}
	fd, err := OpenWithoutLinks(volume, where)
	if err != nil {
		return nil, "", err
	}
	return os.NewFile(uintptr(fd), filepath.Join(volume.Name(), where)), where, nil
}

// resolved is where a path in a volume leads on the node, if that is in the volume: relative to it, and without links.
// A container may change any of it at once, so it must be opened without links.
func resolved(volume, path string) (string, bool) {
	root, err := filepath.EvalSymlinks(volume)
	if err != nil {
		return "", false
	}
	to, err := filepath.EvalSymlinks(filepath.Join(root, path))
	if err != nil {
		return "", false // nor is it said whether there is something outside
	}
	inside, err := filepath.Rel(root, to)
	return inside, err == nil && filepath.IsLocal(inside)
}

// OpenWithoutLinks opens a path below dir (O_PATH), and follows no link.
func OpenWithoutLinks(dir *os.File, path string) (int, error) {
	at := int(dir.Fd())
	for name := range strings.SplitSeq(path, "/") {
		if name == ".." { // no link, and it leads out all the same
			if at != int(dir.Fd()) {
				_ = unix.Close(at)
			}
			return -1, unix.EXDEV
		}
		fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if at != int(dir.Fd()) {
			_ = unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&unix.S_IFMT == unix.S_IFLNK {
			_ = unix.Close(fd)
			return -1, errors.Join(err, unix.ELOOP)
		}
		at = fd
	}
	return at, nil
}

// makeIn makes a directory in an open one, like the one of info.
func makeIn(dir *os.File, name string, like fs.FileInfo) error {
	mode := like.Mode()
	if err := unix.Mkdirat(int(dir.Fd()), name, uint32(mode.Perm())); err != nil {
		return err
	}
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close() //nolint:errcheck // nothing was written
	if mode&fs.ModeSetgid != 0 {
		_, gid := agentdir.OwnerOf(like)
		_ = f.Chown(-1, gid) // a server may refuse it, and has given it the group of the directory it is in
	}
	return f.Chmod(mode & (fs.ModePerm | fs.ModeSetgid | fs.ModeSticky)) // again without the umask
}
