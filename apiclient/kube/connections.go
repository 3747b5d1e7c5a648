package kube

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// connections are the open connections to the apiserver. Requests share them
// (HTTP/2), up to the apiserver's limit per connection.
//
// If no connection has capacity, net/http dials one per waiting request. An agent
// has hundreds of watches, which all lose their connection at the same time. An
// apiserver that returns to hundreds of agents would face 100,000 TLS handshakes.
// So one request dials, and the others reuse its connection or its error.
type connections struct {
	dial utilnet.DialFunc

	mu sync.Mutex
	// open holds the connections, and whether their TLS handshake is complete.
	open  map[*conn]bool
	ready int // number of open connections with a complete handshake
	// requests counts running requests, until the whole response was read.
	requests int
	// ahead is the request that dials, nil if none does.
	ahead *ahead
}

// streams is how many requests a connection surely has room for: as many as
// kube-apiserver takes (--http2-max-streams-per-connection), and as HTTP/2
// assumes before it has said so. Where there is room for more, those beyond that
// number find it one after the other.
const streams = 100

// ahead is a request that others wait for.
type ahead struct {
	conns *connections
	done  chan struct{}
	// err is for those who waited, once done is closed; nil if they are to see for
	// themselves.
	err error
}

func newConnections(dial utilnet.DialFunc) *connections {
	return &connections{dial: dial, open: map[*conn]bool{}}
}

// enter is called before each request, and leave when it is over. It may wait.
// It gives nil, nil if there is room; the request itself as the one that goes
// ahead, and that is to call end; or the error of the one that it waited for.
func (c *connections) enter(ctx context.Context) (*ahead, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.requests < streams*c.ready {
			c.requests++
			return nil, nil
		}
		first := c.ahead
		if first == nil {
			c.requests++
			c.ahead = &ahead{conns: c, done: make(chan struct{})}
			return c.ahead, nil
		}
		if err := c.await(ctx, first); err != nil {
			return nil, err
		}
	}
}

// await waits with mu free.
func (c *connections) await(ctx context.Context, first *ahead) error {
	c.mu.Unlock()
	defer c.mu.Lock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-first.done:
		return first.err
	}
}

func (c *connections) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests--
}

// has notes that a connection has shaken hands.
func (a *ahead) has(tcp net.Conn) {
	if t, ok := tcp.(*tls.Conn); ok {
		tcp = t.NetConn()
	}
	c := a.conns
	c.mu.Lock()
	defer c.mu.Unlock()
	if made, ok := tcp.(*conn); ok {
		if ready, is := c.open[made]; is && !ready {
			c.open[made] = true
			c.ready++
		}
	}
}

// end says that the request with this context has got a connection, or how it
// failed to. Only the first call counts.
func (a *ahead) end(ctx context.Context, err error) {
	c := a.conns
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ahead != a {
		return
	}
	c.ahead = nil
	if ctx.Err() == nil { // otherwise it was given up; another may go ahead
		a.err = err
	}
	close(a.done)
}

// dialContext makes a connection that is known.
func (c *connections) dialContext(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := c.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	made := &conn{Conn: raw, conns: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[made] = false
	return made, nil
}

// closeAll closes them, which ends the requests on them with an error.
func (c *connections) closeAll() {
	c.mu.Lock()
	var all []*conn
	for made := range c.open {
		all = append(all, made)
	}
	c.mu.Unlock()
	for _, made := range all {
		_ = made.Close() // it counts as closed in any case
	}
}

type conn struct {
	net.Conn
	conns *connections
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.conns.mu.Lock()
	if c.conns.open[c] {
		c.conns.ready--
	}
	delete(c.conns.open, c)
	c.conns.mu.Unlock()
	return c.Conn.Close()
}

// body is an answer that says when it is over: it is read to its end or, as a
// watch, until it is closed. In either case it is closed.
type body struct {
	io.ReadCloser
	once  sync.Once
	leave func()
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.once.Do(b.leave)
	return b.ReadCloser.Close()
}
