package streams

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
)

// client is the answer to a client whose connection changes its protocol. It sees the connection end.
type client struct {
	http.ResponseWriter
	lost func() // called when the client has gone

	mu    sync.Mutex
	conn  *clientConn
	ended bool
}

// Unwrap is for http.ResponseController, which must not pass Hijack by: it is found here first.
func (c *client) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Hijack implements http.Hijacker.
func (c *client) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w := &clientConn{Conn: conn, lost: c.lost}
	if n := buffered.Reader.Buffered(); n > 0 { // sent before it was told that it may
		w.early, _ = buffered.Peek(n) //nolint:errcheck // as much as there is
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		conn.Close() //nolint:errcheck // the stream has ended
		return nil, nil, net.ErrClosed
	}
	c.conn = w
	return w, bufio.NewReadWriter(bufio.NewReader(w), bufio.NewWriter(w)), nil
}

// end closes the connection at once, if it was taken over. It can be called again.
func (c *client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.conn != nil {
		c.conn.Conn.Close() //nolint:errcheck // there is nothing more to do about it
	}
}

// clientConn is a client's connection that was taken over.
type clientConn struct {
	net.Conn
	early []byte // read before it was taken over
	lost  func()
	once  sync.Once
	// closing is set when nothing more is to be written.
	closing atomic.Bool
}

func (c *clientConn) Read(b []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(b, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	n, err := c.Conn.Read(b)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.lost()
	}
	return n, err
}

func (c *clientConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	// What reads may wait for what writes, to answer a ping, and then does not see that the client has gone.
	if err != nil && !c.closing.Load() {
		c.lost()
	}
	return n, err
}

// Close lets the client read what was written to it.
func (c *clientConn) Close() (err error) {
	c.once.Do(func() {
		c.closing.Store(true)
		err = linger(c.Conn, clientLinger)
	})
	return err
}
