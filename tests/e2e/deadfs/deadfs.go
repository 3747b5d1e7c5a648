// Package deadfs mounts a file system whose server dies: it takes requests and answers none, so that
// whatever touches the file system is stuck in the kernel, and being killed does not help.
package deadfs

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
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

// Close unmounts it: whoever hangs in it gets an error.
func (s *Server) Close() error {
	err := unix.Unmount(s.point, unix.MNT_FORCE|unix.MNT_DETACH)
	if err == nil {
		<-s.ended
	}
	return errors.Join(err, unix.Close(s.fd))
}
