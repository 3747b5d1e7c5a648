package tcpproxy

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// keep binds one more socket to the address of a listener, so that nobody gets the port while the proxy is cut: the
// kernel gives ports of this range to clients. It does not listen, so that connections are refused.
func keep(at net.Addr) (socket int, err error) {
	tcp, ok := at.(*net.TCPAddr)
	if !ok {
		return -1, errors.New("no address of TCP")
	}
	family, to := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: tcp.Port, Addr: [16]byte(tcp.IP.To16())})
	if ip := tcp.IP.To4(); ip != nil {
		family, to = unix.AF_INET, &unix.SockaddrInet4{Port: tcp.Port, Addr: [4]byte(ip)}
	}
	if socket, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, err
	}
	err = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	if err == nil {
		err = unix.Bind(socket, to)
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(socket))
	}
	return socket, nil
}

// shared lets a listener have the port that is kept.
func shared(_, _ string, c syscall.RawConn) (err error) {
	control := c.Control(func(socket uintptr) {
		err = unix.SetsockoptInt(int(socket), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	return errors.Join(control, err)
}
