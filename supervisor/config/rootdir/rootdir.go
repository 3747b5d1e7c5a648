// Package rootdir claims the agent's root directory (--root-dir), so that two
// agents never run the pods of one node.
package rootdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// LockName is the file in the root directory that an agent holds locked while
// it runs. It holds its process id, unless the disk was full, and is never
// removed: removing it would let a second agent lock another file of the same name.
const LockName = "troupe.lock"

// permission of a root directory that is made new; pods' secrets are below it.
const permission = 0o750

// Dir is a root directory that this process has for itself.
type Dir struct {
	path string
	lock *os.File
}

// InUseError says that another process has the directory.
type InUseError struct {
	Path string
	// PID is the other process; 0 when it could not be read.
	PID int
}

func (e *InUseError) Error() string {
	who := "another agent"
	if e.PID != 0 {
		who = "pid " + strconv.Itoa(e.PID)
	}
	return fmt.Sprintf("root directory %s is in use by %s: stop it or choose another --root-dir", e.Path, who)
}

// Claim locks the root directory for this process, and makes it if it is not
// there. When it fails it has changed nothing: not the directory, nor the lock
// of the agent that has it (*InUseError). The lock goes with the process,
// however that ends.
func Claim(path string) (*Dir, error) {
	if err := Look(path); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, permission); err != nil {
		return nil, fmt.Errorf("make root directory: %w", err)
	}
	lock, err := lockFile(path)
	if err != nil {
		return nil, err
	}
	if err := writePID(lock); err != nil {
		return nil, errors.Join(fmt.Errorf("claim root directory %s: %w", path, err), lock.Close())
	}
	return &Dir{path: path, lock: lock}, nil
}

// Look says why a path can't be the root directory of an agent, and changes nothing. One that does not exist can.
func Look(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("root directory %s: must be an absolute path", path)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("root directory: %w", err)
	case !info.IsDir():
		return fmt.Errorf("root directory %s: is not a directory: choose another --root-dir", path)
	}
	return nil
}

// Path is the directory.
func (d *Dir) Path() string { return d.path }

// Close gives the directory up.
func (d *Dir) Close() error {
	if err := d.lock.Close(); err != nil {
		return fmt.Errorf("release root directory %s: %w", d.path, err)
	}
	return nil
}

func lockFile(dir string) (*os.File, error) {
	name := filepath.Join(dir, LockName)
	for {
		// Not through a link: it could lead out of the directory. Go opens
		// with O_CLOEXEC: a child must not keep the lock of a dead agent.
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, fmt.Errorf("lock root directory: %w", err)
		}
		err = flock(f)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(&InUseError{Path: dir, PID: readPID(f)}, f.Close())
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock root directory %s: %w", dir, err), f.Close())
		}
		same, err := isStill(f, name)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock root directory %s: %w", dir, err), f.Close())
		}
		if same {
			return f, nil
		}
		// Someone replaced the file between opening and locking.
		if err := f.Close(); err != nil {
			return nil, fmt.Errorf("lock root directory %s: %w", dir, err)
		}
	}
}

func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func isStill(f *os.File, name string) (bool, error) {
	opened, err := f.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return os.SameFile(opened, now), nil
}

func readPID(f *os.File) int {
	const longest = 32
	b, err := io.ReadAll(io.LimitReader(f, longest))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return pid
}

// writePID does without where the disk is full: the agent that starts is what makes room there.
func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return nil
	}
	return err
}
