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
	// unauthenticated are connections without an authenticated and authorized request yet.
	unauthenticated int
	// authenticated are connections with one.
	authenticated int
	// requests is the limit of running requests of all unauthenticated connections together.
	requests int
	// bytes is the limit of bytes sent by all unauthenticated connections together. The first modest
	// bytes of each, a handshake and an ordinary request, are not counted.
	bytes, modest int64
}

// usualBounds: an unauthenticated connection takes about 50 KiB, and a parsed header up to thirty
// times its bytes. An apiserver needs one connection, and one more for each stream into a
// container.
var usualBounds = bounds{unauthenticated: 512, authenticated: 4096, requests: 1024, bytes: 2 << 20, modest: 16 << 10}

// connLimiter is the connection limiter of a server.
//
//	connect ──► unauthenticated ──first authorized request──► authenticated: idle ⇄ busy
//	               │                                             │
//	               │ too many, or                                │ too many: the one that was idle for longest,
//	               │ too much                                    │ or the newest if none is idle
//	               ▼                                             ▼
//	             closed                                        closed
//
// Every client that can reach the port can open unauthenticated connections, so their limit can
// always be reached. Then the oldest one of the remote address that holds the most is closed, so
// that other clients cannot lock out an apiserver.
type connLimiter struct {
	bounds bounds
	log    zerolog.Logger

	mu sync.Mutex
	// unauthenticated and authenticated are the open connections.
	unauthenticated, authenticated map[*limitedConn]struct{}
	// seq numbers connections, and the times when one becomes idle.
	seq uint64
	// origins has the unauthenticated connections by their addresses.
	origins origins
	// requests and bytes are the sums over unauthenticated connections.
	requests int
	bytes    int64
	// closed counts the closed connections since the last log line.
	closed     int
	lastLogged time.Time
}

func newConnLimiter(b bounds, log zerolog.Logger) *connLimiter {
	return &connLimiter{
		bounds: b, log: log, unauthenticated: map[*limitedConn]struct{}{}, authenticated: map[*limitedConn]struct{}{},
		origins: origins{of: map[netip.Prefix]*address{}},
	}
}

// limitedConn is one connection of the limiter.
type limitedConn struct {
	net.Conn
	limiter       *connLimiter
	origin        netip.Prefix
	authenticated atomic.Bool

	// connLimiter.mu guards all below.
	number   uint64        // connLimiter.seq when it was accepted
	element  *list.Element // of an unauthenticated connection, in origins
	idle     uint64        // connLimiter.seq when it last became idle; 0 if it is busy
	requests int
	sent     int64
}

// NetConn is the connection below, as tls.Conn has it: streams end only one half of it (CloseWrite).
func (c *limitedConn) NetConn() net.Conn { return c.Conn }

// over is the number of bytes received beyond the modest ones.
func (c *limitedConn) over() int64 { return max(0, c.sent-c.limiter.bounds.modest) }

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

// limitedListener is a listener whose connections are limited.
type limitedListener struct {
	net.Listener
	limiter *connLimiter
}

// Accept implements net.Listener.
func (l limitedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.limiter.add(c), nil
}

func (l *connLimiter) add(conn net.Conn) *limitedConn {
	c := &limitedConn{Conn: conn, limiter: l, origin: origin(conn.RemoteAddr())}
	l.change(func() []*limitedConn {
		l.seq++
		c.number = l.seq
		l.unauthenticated[c] = struct{}{}
		l.origins.add(c)
		if len(l.unauthenticated) > l.bounds.unauthenticated {
			return l.remove(l.origins.oldestOfMost())
		}
		return nil
	})
	return c
}

// change calls do under the lock, and closes the connections that it returns.
func (l *connLimiter) change(do func() []*limitedConn) {
	l.mu.Lock()
	closed := do()
	l.closed += len(closed)
	tell := 0
	if now := time.Now(); len(closed) > 0 && now.Sub(l.lastLogged) > time.Minute {
		tell, l.closed, l.lastLogged = l.closed, 0, now
	}
	l.mu.Unlock()
	for _, c := range closed {
		c.Conn.Close() //nolint:errcheck // it is the end of it in any case
	}
	if tell > 0 {
		l.log.Warn().Int("closed", tell).Str("last", closed[0].RemoteAddr().String()).
			Msg("connection limit reached: closing unauthenticated connections")
	}
}

// remove removes connections.
func (l *connLimiter) remove(all ...*limitedConn) []*limitedConn {
	for _, c := range all {
		if _, is := l.unauthenticated[c]; is {
			l.requests -= c.requests
			l.bytes -= c.over()
			l.origins.remove(c)
		}
		delete(l.unauthenticated, c)
		delete(l.authenticated, c)
	}
	return all
}

// first is the minimum.
func first(of map[*limitedConn]struct{}, before func(a, b *limitedConn) bool) *limitedConn {
	var found *limitedConn
	for c := range of { // order-free: no two are equal
		if found == nil || before(c, found) {
			found = c
		}
	}
	return found
}

// markAuthenticated marks a connection as authenticated.
func (l *connLimiter) markAuthenticated(c *limitedConn) {
	if c.authenticated.Swap(true) {
		return
	}
	l.change(func() []*limitedConn {
		if _, is := l.unauthenticated[c]; !is {
			return nil // it was closed in the meantime
		}
		l.remove(c)
		l.authenticated[c] = struct{}{}
		if len(l.authenticated) <= l.bounds.authenticated {
			return nil
		}
		worst := first(l.authenticated, func(a, b *limitedConn) bool {
			if (a.idle > 0) != (b.idle > 0) {
				return a.idle > 0
			}
			if a.idle != b.idle {
				return a.idle < b.idle
			}
			return a.number < b.number
		})
		if worst.idle == 0 {
			worst = c
		}
		return l.remove(worst)
	})
}

// beginRequest counts a running request. On an unauthenticated connection, it also counts against
// bounds.requests. The caller calls done after the answer.
func (l *connLimiter) beginRequest(c *limitedConn) (done func()) {
	l.count(c, 1)
	return func() { l.count(c, -1) }
}

func (l *connLimiter) count(c *limitedConn, n int) {
	l.change(func() []*limitedConn {
		c.requests += n
		if _, is := l.unauthenticated[c]; !is {
			return nil
		}
		if l.requests += n; l.requests <= l.bounds.requests {
			return nil
		}
		return l.remove(first(l.unauthenticated, func(a, b *limitedConn) bool {
			if a.requests != b.requests {
				return a.requests > b.requests
			}
			return a.number < b.number
		}))
	})
}

// countBytes counts the bytes received on an unauthenticated connection.
func (l *connLimiter) countBytes(c *limitedConn, n int) {
	l.change(func() []*limitedConn {
		if _, is := l.unauthenticated[c]; !is {
			c.sent += int64(n)
			return nil
		}
		before := c.over()
		c.sent += int64(n)
		if l.bytes += c.over() - before; l.bytes <= l.bounds.bytes {
			return nil
		}
		return l.remove(first(l.unauthenticated, func(a, b *limitedConn) bool {
			if a.sent != b.sent {
				return a.sent > b.sent
			}
			return a.number < b.number
		}))
	})
}

// state is http.Server.ConnState.
func (l *connLimiter) state(conn net.Conn, s http.ConnState) {
	c := limitedConnOf(conn)
	if c == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.idle = 0
	if s == http.StateIdle {
		l.seq++
		c.idle = l.seq
	}
}

// limitedConnOf finds the limiter's value of an http.Server's connection.
func limitedConnOf(conn net.Conn) *limitedConn {
	if t, is := conn.(*tls.Conn); is {
		conn = t.NetConn()
	}
	c, _ := conn.(*limitedConn)
	return c
}

type connKey struct{}

// remember is http.Server.ConnContext.
func remember(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, limitedConnOf(conn))
}

// connIn is the connection of a request's context; nil in a test without connections.
func connIn(ctx context.Context) *limitedConn {
	c, _ := ctx.Value(connKey{}).(*limitedConn)
	return c
}

// Read implements net.Conn.
func (c *limitedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.authenticated.Load() {
		c.limiter.countBytes(c, n)
	}
	return n, err
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.limiter.mu.Lock()
	c.limiter.remove(c)
	c.limiter.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite is called by net/http before Close, so that a client reads its answer.
func (c *limitedConn) CloseWrite() error {
	if half, is := c.Conn.(interface{ CloseWrite() error }); is {
		return half.CloseWrite()
	}
	return net.ErrClosed
}
