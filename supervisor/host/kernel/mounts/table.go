package mounts

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Table is what is mounted, read again only when the kernel says that it has
// changed (poll of mountinfo, proc_pid_mountinfo(5)).
//
// The kernel blocks all mounts while it writes the table, which has some
// hundred lines on a node with many pods: an agent that starts beside them would
// read it once for each, and hold up the sandboxes that the runtime is making.
type Table struct {
	mu sync.Mutex
	// fd is -1 while it is not open. It is none of os.File: the runtime's poller
	// would take the kernel's sign of a change for itself.
	fd int
	// current: all is what was read when the kernel last told of a change, or before.
	current bool
	closed  bool
	all     []Mount
}

func NewTable() *Table { return &Table{fd: -1} }

// Read gives the mounts as they are now, in order of mounting. Callers must not change
// what it gives.
func (t *Table) Read() ([]Mount, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, os.ErrClosed
	}
	if err := t.open(); err != nil {
		return nil, err
	}
	if t.unchanged() {
		return t.all, nil
	}
	text, err := t.text()
	if err != nil {
		t.shut()
		return nil, os.NewSyscallError("read mountinfo", err)
	}
	all, err := parse(text)
	if err != nil {
		return nil, err
	}
	t.all, t.current = all, true
	return all, nil
}

func (t *Table) open() error {
	if t.fd >= 0 {
		return nil
	}
	fd, err := unix.Open(mountInfo, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: mountInfo, Err: err}
	}
	t.fd = fd
	return nil
}

// unchanged reports whether nothing was mounted or unmounted since the last time that
// this was asked, and what was read then is known. A kernel that does not tell, as
// those do that say of the file what they say of any other, is never believed.
func (t *Table) unchanged() bool {
	known := t.current
	t.current = false
	poll := []unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLPRI | unix.POLLOUT}}
	for {
		_, err := unix.Poll(poll, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		t.current = known && err == nil && poll[0].Revents == 0
		return t.current
	}
}

// text reads the file from its beginning.
func (t *Table) text() (string, error) {
	b := make([]byte, 0, 64<<10)
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := unix.Pread(t.fd, b[len(b):cap(b)], int64(len(b)))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return "", err
		case n == 0:
			return string(b), nil
		default:
			b = b[:len(b)+n]
		}
	}
}

func (t *Table) shut() {
	if t.fd >= 0 {
		_ = unix.Close(t.fd) // nothing was written
	}
	t.fd, t.current, t.all = -1, false, nil
}

// Close lets go of the file.
func (t *Table) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shut()
	t.closed = true
}
