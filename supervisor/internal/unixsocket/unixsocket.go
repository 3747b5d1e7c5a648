// Package unixsocket listens on unix sockets that only the user of the agent may open,
// and removes them at the end.
package unixsocket

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// Listener listens at a path.
type Listener struct {
	net.Listener
	path string
	made os.FileInfo
}

// Listen makes the socket under another name and moves it to its place when its
// mode is right: it replaces a stale one, and is never open to others. Whoever
// calls has made sure that no other process listens there. The socket is reached
// through its directory's descriptor, so that the path may be longer than that of
// a socket; clients need one that fits.
func Listen(path string) (*Listener, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // only looked up in
	temporary := filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), ".t.sock")
	if err := os.Remove(temporary); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: temporary, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	var made os.FileInfo
	if err = os.Chmod(temporary, 0o600); err == nil {
		made, err = os.Lstat(temporary)
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(temporary))
	}
	return &Listener{Listener: l, path: path, made: made}, nil
}

// Remove removes the socket, unless another agent has made its own there meanwhile.
func (l *Listener) Remove() error {
	if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.made) {
		return os.Remove(l.path)
	}
	return nil
}
