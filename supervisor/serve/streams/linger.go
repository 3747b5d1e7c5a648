package streams

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// How long the far side of a connection may take to read what was written to it.
const (
	clientLinger = time.Minute
	// The runtime is on this machine. Until it closes, output for a client that has gone is discarded, and the
	// command that writes it does not notice.
	runtimeLinger = 5 * time.Second
)

// linger closes a connection after the far side has read what was written to it. The kernel resets a
// connection that is closed with input unread, or gets input afterwards, such as a ping; the reset discards
// what the far side has not read, and kubectl takes that for success (kubernetes#60140). So only this half is
// closed, and input is discarded until the far side closes the other half.
func linger(conn net.Conn, atMost time.Duration) error {
	if !closeWrite(conn) {
		return conn.Close()
	}
	err := conn.SetReadDeadline(time.Now().Add(atMost))
	if err == nil {
		io.Copy(io.Discard, conn) //nolint:errcheck // the far side has gone, or takes too long
	}
	return errors.Join(err, conn.Close())
}

// closeWrite tells the far side that nothing more comes. It is false for a connection that can't.
func closeWrite(conn net.Conn) (done bool) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		done = half.CloseWrite() == nil
	}
	// The last record of TLS waits only 5 s for place in a full socket. The socket's own end needs no place.
	if outer, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return closeWrite(outer.NetConn())
	}
	return done
}

// runtimeConn is a connection to the runtime.
type runtimeConn struct {
	net.Conn
	once sync.Once
	// closed is called after the connection was closed.
	closed func()
}

// Write discards what the runtime does not take any more: it may have written output before, which the
// client must get.
func (c *runtimeConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		n, err = len(b), nil
	}
	return n, err
}

// Close lets the runtime read what was written to it.
func (c *runtimeConn) Close() (err error) {
	c.once.Do(func() {
		err = linger(c.Conn, runtimeLinger)
		c.closed()
	})
	return err
}
