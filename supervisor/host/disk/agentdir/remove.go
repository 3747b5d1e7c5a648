package agentdir

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
)

// removal takes a tree away without ever crossing into a mount. It removes
// what it can and keeps the first error.
type removal struct {
	ctx context.Context
	// dirs: only directories are removed, and files so deep.
	dirs  bool
	files int
	// top is the tree's own directory, to which directories that lie too deep
	// are moved: a pod can nest more of them than there are file descriptors.
	top   *os.File
	moved int
	first error
}

const (
	removalDepth = 128
	removalBatch = 256
	// removalPasses bounds how often a directory is read again that is not empty
	// after all of it was removed: someone writes to it.
	removalPasses = 5
)

// RemoveTree removes dir/name. What is not there is removed already.
func RemoveTree(ctx context.Context, dir *os.File, name string) error {
	r := &removal{ctx: ctx}
	r.remove(dir, name, 0)
	return r.first
}

func (r *removal) fail(err error) {
	if r.first == nil {
		r.first = err
	}
}

func (r *removal) remove(dir *os.File, name string, depth int) {
	if r.ctx.Err() != nil {
		r.fail(r.ctx.Err())
		return
	}
	path := filepath.Join(dir.Name(), name)
	err := error(unix.EISDIR)
	if !r.dirs || depth == r.files && depth > 0 {
		err = unix.Unlinkat(int(dir.Fd()), name, 0)
	}
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
	case errors.Is(err, unix.EISDIR), errors.Is(err, unix.EPERM): // POSIX has EPERM for a directory
		if dirErr := r.removeDir(dir, name, depth); errors.Is(dirErr, unix.ENOTDIR) && r.dirs {
			r.fail(hostcall.Failf(port.StateConflict,
				"%s was written when no volume was mounted there, and is not removed: move or remove it", path))
		} else if errors.Is(dirErr, unix.ENOTDIR) {
			r.fail(removeError(path, err))
		} else if dirErr != nil {
			r.fail(removeError(path, dirErr))
		}
	default:
		r.fail(removeError(path, err))
	}
}

// removeDir removes a directory and all that is in it.
func (r *removal) removeDir(dir *os.File, name string, depth int) error {
	for pass := 0; ; pass++ {
		err := unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
			return err
		}
		if r.first != nil && pass > 0 { // not empty because of that
			return nil
		}
		if pass == removalPasses {
			return err
		}
		if depth > removalDepth && r.dirs {
			return err
		}
		if depth > removalDepth {
			return r.raise(dir, name)
		}
		moved := r.moved
		if err := r.empty(dir, name, depth); err != nil {
			return err
		}
		if depth == 0 && r.moved > moved {
			pass = 0 // what was moved here is still to be removed
		}
	}
}

// empty removes all that is in dir/name.
func (r *removal) empty(dir *os.File, name string, depth int) error {
	sub, err := openDir(dir, name)
	if err != nil {
		return err
	}
	defer sub.Close() //nolint:errcheck // nothing was written
	if depth == 0 {
		r.top = sub
	}
	for {
		names, err := sub.Readdirnames(removalBatch)
		for _, n := range names {
			r.remove(sub, n, depth+1)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if r.ctx.Err() != nil {
			return r.ctx.Err()
		}
	}
}

// raise moves a directory that lies too deep to the top, to be removed from
// there in the next pass.
func (r *removal) raise(dir *os.File, name string) error {
	r.moved++
	return unix.Renameat(int(dir.Fd()), name, int(r.top.Fd()), ".removing-"+rand.Text())
}

// openDir opens a directory for reading, unless that leads through a link or
// into a mount, be it of the same file system (openat2(2), RESOLVE_NO_XDEV).
func openDir(dir *os.File, name string) (*os.File, error) {
	path := filepath.Join(dir.Name(), name)
	fd, err := unix.Openat2(int(dir.Fd()), name, &unix.OpenHow{
		Flags:   dirFlags,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	})
	switch {
	case err == nil:
		return os.NewFile(uintptr(fd), path), nil
	case errors.Is(err, unix.EXDEV):
		return nil, mountedAt(path)
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		// A kernel before 5.6, or a seccomp filter that does not know the call.
		return openDirByMountID(dir, name)
	}
	return nil, err
}

const dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK

// openDirByMountID is openDir for old kernels: the place is opened without
// asking its file system for anything (O_PATH), and its mount looked at.
func openDirByMountID(dir *os.File, name string) (*os.File, error) {
	path := filepath.Join(dir.Name(), name)
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	place := os.NewFile(uintptr(fd), path)
	defer place.Close() //nolint:errcheck // nothing was written
	mine, err := MountID(dir)
	if err != nil {
		return nil, err
	}
	its, err := MountID(place)
	if err != nil {
		return nil, err
	}
	if mine != its {
		return nil, mountedAt(path)
	}
	if fd, err = unix.Openat(int(place.Fd()), ".", dirFlags, 0); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

func mountedAt(path string) error {
	return hostcall.Failf(port.StateConflict, "%s is mounted: unmount it", path)
}

// MountID is the mount that an open file is on (proc_pid_fdinfo(5), mnt_id).
func MountID(f *os.File) (string, error) {
	b, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(int(f.Fd())))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "", fmt.Errorf("%s: the kernel does not report its mount", f.Name())
}

// removeError names the path, once.
func removeError(path string, err error) error {
	if errors.Is(err, unix.EBUSY) {
		return mountedAt(path)
	}
	if _, ok := errors.AsType[*hostcall.Failure](err); ok || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return err
	}
	return fmt.Errorf("remove %s: %w", path, err)
}
