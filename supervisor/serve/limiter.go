package serve

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// bounds are the limits of a connection limiter. A connection that exceeds one is closed.
type bounds struct {
	// strangers are connections without an authenticated and authorized request yet.
	strangers int
	// known are connections with one.
	known int
	// requests is the limit of running requests of all strangers together.
	requests int
	// bytes is the limit of bytes sent by all strangers together. The first modest
	// bytes of each, a handshake and an ordinary request, are not counted.
	bytes, modest int64
}

// usualBounds: an unauthenticated connection takes about 50 KiB, and a parsed header up to thirty
// times its bytes. An apiserver needs one connection, and one more for each stream into a
// container.
var usualBounds = bounds{strangers: 512, known: 4096, requests: 1024, bytes: 2 << 20, modest: 16 << 10}

// crowd is the connection limiter of a server.
//
//	connect ──► stranger ──let in──► known ──► idle ⇄ busy
//	               │                   │
//	               │ too many, or      │ too many: the one that was idle for longest,
//	               │ too much          │ or the newcomer if none is
//	               ▼                   ▼
//	             closed              closed
//
// Every client that can reach the port can open unauthenticated connections (strangers), so their
// limit can always be reached. Then the oldest one of the remote address that holds the most is
// closed, so that other clients cannot lock out an apiserver. The first authorized request makes
// a connection known.
type crowd struct {
	bounds bounds
	log    zerolog.Logger

	mu sync.Mutex
	// strangers and known are the open connections; guest.number is their order.
	strangers, known map[*guest]struct{}
	came             uint64
	// origins has the strangers by their addresses.
	origins origins
	// requests and bytes are the sums over unauthenticated connections.
	requests int
	bytes    int64
	// closed counts the closed connections since the last log line.
	closed int
	told   time.Time
}

func newCrowd(b bounds, log zerolog.Logger) *crowd {
	return &crowd{
		bounds: b, log: log, strangers: map[*guest]struct{}{}, known: map[*guest]struct{}{},
		origins: origins{of: map[netip.Prefix]*address{}},
	}
}

// guest is one connection of the limiter.
type guest struct {
	net.Conn
	crowd  *crowd
	origin netip.Prefix
	letIn  atomic.Bool

	// crowd.mu guards all below.
	number   uint64        // in the order of arrival
	place    *list.Element // of a stranger, in origins
	idle     uint64        // crowd.came when it last became idle; 0 if it is busy
	requests int
	sent     int64
}

// NetConn is the connection below, as tls.Conn has it: streams end only one half of it (CloseWrite).
func (g *guest) NetConn() net.Conn { return g.Conn }

// over is the number of bytes received beyond the modest ones.
func (g *guest) over() int64 { return max(0, g.sent-g.crowd.bounds.modest) }

// origin is the owner of a remote address: for IPv6 its /64.
func origin(a net.Addr) netip.Prefix {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Prefix{} // not an IP address: all are one
	}
	ip, bits := at.Addr().Unmap(), 32
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.WithZone("").Prefix(bits) //nolint:errcheck // the bits fit
	return p
}

// door is a listener whose connections are limited.
type door struct {
	net.Listener
	crowd *crowd
}

// Accept implements net.Listener.
func (d door) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return d.crowd.enter(c), nil
}

func (c *crowd) enter(conn net.Conn) *guest {
	g := &guest{Conn: conn, crowd: c, origin: origin(conn.RemoteAddr())}
	c.change(func() []*guest {
		c.came++
		g.number = c.came
		c.strangers[g] = struct{}{}
		c.origins.add(g)
		if len(c.strangers) > c.bounds.strangers {
			return c.forget(c.origins.oldestOfMost())
		}
		return nil
	})
	return g
}

// change calls do under the lock, and closes the connections that it returns.
func (c *crowd) change(do func() []*guest) {
	c.mu.Lock()
	closed := do()
	c.closed += len(closed)
	tell := 0
	if now := time.Now(); len(closed) > 0 && now.Sub(c.told) > time.Minute {
		tell, c.closed, c.told = c.closed, 0, now
	}
	c.mu.Unlock()
	for _, g := range closed {
		g.Conn.Close() //nolint:errcheck // it is the end of it in any case
	}
	if tell > 0 {
		c.log.Warn().Int("closed", tell).Str("last", closed[0].RemoteAddr().String()).
			Msg("connection limit reached: closing unauthenticated connections")
	}
}

// forget removes connections.
func (c *crowd) forget(all ...*guest) []*guest {
	for _, g := range all {
		if _, is := c.strangers[g]; is {
			c.requests -= g.requests
			c.bytes -= g.over()
			c.origins.remove(g)
		}
		delete(c.strangers, g)
		delete(c.known, g)
	}
	return all
}

// first is the minimum.
func first(of map[*guest]struct{}, before func(a, b *guest) bool) *guest {
	var found *guest
	for g := range of { // order-free: no two are equal
		if found == nil || before(g, found) {
			found = g
		}
	}
	return found
}

// welcome marks a connection as authenticated.
func (c *crowd) welcome(g *guest) {
	if g.letIn.Swap(true) {
		return
	}
	c.change(func() []*guest {
		if _, is := c.strangers[g]; !is {
			return nil // it was closed in the meantime
		}
		c.forget(g)
		c.known[g] = struct{}{}
		if len(c.known) <= c.bounds.known {
			return nil
		}
		worst := first(c.known, func(a, b *guest) bool {
			if (a.idle > 0) != (b.idle > 0) {
				return a.idle > 0
			}
			if a.idle != b.idle {
				return a.idle < b.idle
			}
			return a.number < b.number
		})
		if worst.idle == 0 {
			worst = g
		}
		return c.forget(worst)
	})
}

// asks counts a running request. On an unauthenticated connection, it also counts against
// bounds.requests. The caller calls done after the answer.
func (c *crowd) asks(g *guest) (done func()) {
	c.count(g, 1)
	return func() { c.count(g, -1) }
}

func (c *crowd) count(g *guest, n int) {
	c.change(func() []*guest {
		g.requests += n
		if _, is := c.strangers[g]; !is {
			return nil
		}
		if c.requests += n; c.requests <= c.bounds.requests {
			return nil
		}
		return c.forget(first(c.strangers, func(a, b *guest) bool {
			if a.requests != b.requests {
				return a.requests > b.requests
			}
			return a.number < b.number
		}))
	})
}

// took counts the bytes received on an unauthenticated connection.
func (c *crowd) took(g *guest, n int) {
	c.change(func() []*guest {
		if _, is := c.strangers[g]; !is {
			g.sent += int64(n)
			return nil
		}
		before := g.over()
		g.sent += int64(n)
		if c.bytes += g.over() - before; c.bytes <= c.bounds.bytes {
			return nil
		}
		return c.forget(first(c.strangers, func(a, b *guest) bool {
			if a.sent != b.sent {
				return a.sent > b.sent
			}
			return a.number < b.number
		}))
	})
}

// state is http.Server.ConnState.
func (c *crowd) state(conn net.Conn, s http.ConnState) {
	g := guestOf(conn)
	if g == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	g.idle = 0
	if s == http.StateIdle {
		c.came++
		g.idle = c.came
	}
}

// guestOf finds the limiter's value of an http.Server's connection.
func guestOf(conn net.Conn) *guest {
	if t, is := conn.(*tls.Conn); is {
		conn = t.NetConn()
	}
	g, _ := conn.(*guest)
	return g
}

type guestKey struct{}

// remember is http.Server.ConnContext.
func remember(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, guestKey{}, guestOf(conn))
}

// guestIn is the connection of a request's context; nil in a test without connections.
func guestIn(ctx context.Context) *guest {
	g, _ := ctx.Value(guestKey{}).(*guest)
	return g
}

// Read implements net.Conn.
func (g *guest) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	if n > 0 && !g.letIn.Load() {
		g.crowd.took(g, n)
	}
	return n, err
}

// Close implements net.Conn.
func (g *guest) Close() error {
	g.crowd.mu.Lock()
	g.crowd.forget(g)
	g.crowd.mu.Unlock()
	return g.Conn.Close()
}

// CloseWrite is called by net/http before Close, so that a client reads its answer.
func (g *guest) CloseWrite() error {
	if c, is := g.Conn.(interface{ CloseWrite() error }); is {
		return c.CloseWrite()
	}
	return net.ErrClosed
}
