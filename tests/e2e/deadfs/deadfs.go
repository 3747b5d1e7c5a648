// Package deadfs mounts a file system whose server dies: it takes requests and answers none, so that
// whatever touches the file system is stuck in the kernel, and being killed does not help.
package deadfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/tests/check"
)

// Server is the server of one such mount. All that is in it are directories without end, each with the
// names Share in it, and nothing can be written.
//
//	Mount ──► alive ──Die──► dead ──Close──► unmounted
type Server struct {
	point string
	fd    int
	dead  atomic.Bool
	asked chan struct{} // closed when something was asked for and not answered
	ended chan struct{}
	once  sync.Once
	close func() error
}

// Device is what it needs.
const Device = "/dev/fuse"

// Share is a directory in it.
const Share = "share"

// Mount mounts one at a directory.
func Mount(point string) (*Server, error) {
	fd, err := unix.Open(Device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", Device, err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)
	if err := unix.Mount("dead", point, "fuse", 0, options); err != nil {
		return nil, errors.Join(fmt.Errorf("mount a FUSE file system at %s: %w", point, err), unix.Close(fd))
	}
	s := &Server{point: point, fd: fd, asked: make(chan struct{}), ended: make(chan struct{})}
	s.close = sync.OnceValue(s.unmount)
	go s.serve()
	return s, nil
}

// Die ends all answers.
func (s *Server) Die() { s.dead.Store(true) }

// Asked is closed once somebody hangs in it.
func (s *Server) Asked() <-chan struct{} { return s.asked }

const largest = 1 << 20

func (s *Server) serve() {
	defer close(s.ended)
	raw := make([]byte, largest)
	for {
		n, err := unix.Read(s.fd, raw)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT) { // interrupted; a request was
			continue
		}
		if err != nil || n < headerSize {
			return // unmounted
		}
		q := request(raw[:n])
		if s.dead.Load() && q.op() != opInit {
			s.once.Do(func() { close(s.asked) })
			continue
		}
		if reply := q.answer(); reply != nil {
			if _, err := unix.Write(s.fd, reply); err != nil && !errors.Is(err, unix.ENOENT) {
				return
			}
		}
	}
}

// patience is how long Close waits for the kernel.
const patience = 20 * time.Second

// Close ends the connection and unmounts it: whoever hangs in it gets an error, and whoever comes later too. It does not
// take long, whatever hangs, and may be called again.
func (s *Server) Close() error { return s.close() }

func (s *Server) unmount() error {
	// An unmount may wait for locks that those have who hang. So they get their error first.
	aborted := abort(s.point)
	done := make(chan error, 1)
	go func() { done <- unix.Unmount(s.point, unix.MNT_FORCE|unix.MNT_DETACH) }()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	var err error
	select {
	case err = <-done:
	case <-limit.C:
		return errors.Join(fmt.Errorf("unmount %s: it hangs", s.point), aborted)
	}
	select {
	case <-s.ended:
		return errors.Join(err, unix.Close(s.fd))
	case <-limit.C: // closing the device does not end a read of it
		return errors.Join(err, fmt.Errorf("unmount %s: its server still reads", s.point), aborted)
	}
}

// connections is where the kernel has FUSE connections, by the minor number of their device.
const connections = "/sys/fs/fuse/connections"

// abort ends the connection of what is mounted at a directory, without a look at the directory.
func abort(point string) (err error) {
	defer check.Return(&err)
	table := check.Must(os.ReadFile("/proc/self/mountinfo"))
	dir := connections
	if entries, err := os.ReadDir(dir); err != nil || len(entries) == 0 { // fusectl is not mounted there
		dir = check.Must(os.MkdirTemp("", "fusectl-"))
		defer os.Remove(dir)
		if err := unix.Mount("fusectl", dir, "fusectl", 0, ""); err != nil {
			return fmt.Errorf("mount fusectl: %w", err)
		}
		defer unix.Unmount(dir, unix.MNT_DETACH) //nolint:errcheck // the removal of the directory would fail, too
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) < 5 || fields[4] != point {
			continue
		}
		_, text, _ := strings.Cut(fields[2], ":")
		minor, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("the device of %s is %s: %w", point, fields[2], err)
		}
		return os.WriteFile(filepath.Join(dir, strconv.Itoa(minor), "abort"), []byte("1"), 0)
	}
	return fmt.Errorf("%s is not mounted", point)
}
