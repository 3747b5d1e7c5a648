// Package deadfs mounts a file system whose server takes requests and answers none, as a dead file
// server does: whatever touches it is stuck in the kernel, and being killed does not help.
package deadfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// Server is the server of one such mount.
type Server struct {
	point string
	fd    int
	asked chan struct{} // closed when something was asked for
	ended chan struct{}
	once  sync.Once
}

// Device is what it needs.
const Device = "/dev/fuse"

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

// Asked is closed once somebody hangs in it.
func (s *Server) Asked() <-chan struct{} { return s.asked }

// The part of the protocol (linux/fuse.h, version 7.31) that it takes to be asked.
const (
	opInit     = 26
	headerSize = 40
	replySize  = 16 + 64
	largest    = 1 << 20
)

func (s *Server) serve() {
	defer close(s.ended)
	request := make([]byte, largest)
	for {
		n, err := unix.Read(s.fd, request)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n < headerSize {
			return // unmounted
		}
		if binary.NativeEndian.Uint32(request[4:]) != opInit {
			s.once.Do(func() { close(s.asked) })
			continue
		}
		reply := make([]byte, replySize)
		binary.NativeEndian.PutUint32(reply[0:], uint32(len(reply)))
		copy(reply[8:16], request[8:16]) // unique
		binary.NativeEndian.PutUint32(reply[16:], 7)
		binary.NativeEndian.PutUint32(reply[20:], 31)
		binary.NativeEndian.PutUint32(reply[36:], 4096) // max_write
		if _, err := unix.Write(s.fd, reply); err != nil {
			return
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
