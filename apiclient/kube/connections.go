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

// streams is the number of concurrent requests that every connection allows: kube-apiserver's
// limit (--http2-max-streams-per-connection), and HTTP/2's assumption before the server states
// one. Where the limit is higher, requests beyond this number are sent one after another.
const streams = 100

// ahead is the request that dials, which others wait for.
type ahead struct {
	conns *connections
	done  chan struct{}
	// err is for the waiting requests, once done is closed; nil if they should retry.
	err error
}

func newConnections(dial utilnet.DialFunc) *connections {
	return &connections{dial: dial, open: map[*conn]bool{}}
}

// enter is called before each request, and leave after it. It may wait. It returns nil, nil if
// there is room; an ahead if this request must dial and then call end; or the error of the
// request that it waited for.
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

// await waits with mu released.
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

// has records a connection's complete handshake.
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

// end says that the request with this context got a connection, or failed to. Only the first call
// counts.
func (a *ahead) end(ctx context.Context, err error) {
	c := a.conns
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ahead != a {
		return
	}
	c.ahead = nil
	if ctx.Err() == nil { // otherwise it was cancelled; another may dial
		a.err = err
	}
	close(a.done)
}

// dialContext dials a connection and registers it.
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

// closeAll closes all connections, which fails the requests on them.
func (c *connections) closeAll() {
	c.mu.Lock()
	var all []*conn
	for made := range c.open {
		all = append(all, made)
	}
	c.mu.Unlock()
	for _, made := range all {
		_ = made.Close() // it counts as closed even if that fails
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

// body is a response body that reports its end: when it was read completely or, for a watch,
// closed. Both close it.
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
