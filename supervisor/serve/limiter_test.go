package serve

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

// fake is a connection from somewhere, of which it is known whether it was closed.
type fake struct {
	net.Conn
	from   net.Addr
	closed bool
}

func (f *fake) RemoteAddr() net.Addr       { return f.from }
func (f *fake) Close() error               { f.closed = true; return nil }
func (f *fake) Read(b []byte) (int, error) { return len(b), nil }

func from(ip string) *fake {
	return &fake{from: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(ip), 1000))}
}

// TestConnLimiter: whatever connections come and go, none is kept beyond the bounds, sums are those of the open
// connections, and an authenticated one is only closed for others that are.
func TestConnLimiter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := bounds{unauthenticated: 4, authenticated: 3, requests: 6, bytes: 100, modest: 10}
		c := newConnLimiter(b, zerolog.Nop())
		var all []*limitedConn
		conn := func(g *limitedConn) *fake { return g.Conn.(*fake) }
		enter := func() {
			all = append(all, c.add(from(rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.2", "2001:db8::1"}).Draw(t, "ip"))))
		}
		one := func() *limitedConn {
			if len(all) == 0 { // rapid fails a test whose first draws are all skipped
				enter()
			}
			return all[rapid.IntRange(0, len(all)-1).Draw(t, "who")]
		}
		t.Repeat(map[string]func(*rapid.T){
			"enter":  func(*rapid.T) { enter() },
			"let in": func(*rapid.T) { c.markAuthenticated(one()) },
			"ask":    func(*rapid.T) { c.beginRequest(one()) },
			"send": func(t *rapid.T) {
				one().Read(make([]byte, rapid.IntRange(1, 60).Draw(t, "bytes"))) //nolint:errcheck // a fake
			},
			"idle":  func(*rapid.T) { c.state(one(), http.StateIdle) },
			"busy":  func(*rapid.T) { c.state(one(), http.StateActive) },
			"leave": func(*rapid.T) { one().Close() }, //nolint:errcheck // a fake
			"answered": func(*rapid.T) {
				if g := one(); g.requests > 0 {
					c.count(g, -1)
				}
			},
			"": func(t *rapid.T) {
				requests, bytes := 0, int64(0)
				for g := range c.unauthenticated {
					requests, bytes = requests+g.requests, bytes+g.over()
				}
				if requests != c.requests || bytes != c.bytes {
					t.Fatalf("%d requests and %d bytes are counted, want %d and %d", c.requests, c.bytes, requests, bytes)
				}
				if len(c.unauthenticated) > b.unauthenticated || len(c.authenticated) > b.authenticated || requests > b.requests || bytes > b.bytes {
					t.Fatalf("%d unauthenticated, %d authenticated, %d requests, %d bytes", len(c.unauthenticated), len(c.authenticated), requests, bytes)
				}
				for _, g := range all {
					_, stranger := c.unauthenticated[g]
					_, known := c.authenticated[g]
					if stranger && known || (stranger || known) == conn(g).closed {
						t.Fatalf("%d: a stranger: %t, known: %t, closed: %t", g.number, stranger, known, conn(g).closed)
					}
				}
			},
		})
	})
}

// TestFloodOfStrangers: one address that connects without end closes its own
// connections, and not that of another.
func TestFloodOfStrangers(t *testing.T) {
	c := newConnLimiter(usualBounds, zerolog.Nop())
	apiserver := c.add(from("192.0.2.1"))
	var last *limitedConn
	for range 10 * usualBounds.unauthenticated {
		last = c.add(from("198.51.100.7"))
	}
	if apiserver.Conn.(*fake).closed || last.Conn.(*fake).closed {
		t.Error("the wrong one was closed")
	}
	if len(c.unauthenticated) != usualBounds.unauthenticated {
		t.Errorf("%d unauthenticated connections", len(c.unauthenticated))
	}
	c.markAuthenticated(apiserver)
	for i := range 10 * usualBounds.unauthenticated {
		c.add(from(fmt.Sprintf("2001:db8:%x::1", i))) // from everywhere
	}
	if apiserver.Conn.(*fake).closed {
		t.Error("who was let in is closed")
	}
}

// TestNetConn: what half-closes a stream's connection finds the connection below.
func TestNetConn(t *testing.T) {
	below := from("192.0.2.1")
	if g := newConnLimiter(bounds{unauthenticated: 1}, zerolog.Nop()).add(below); g.NetConn() != below {
		t.Errorf("it is %v", g.NetConn())
	}
}

func TestOrigin(t *testing.T) {
	for a, want := range map[string]string{
		"192.0.2.1": "192.0.2.1/32", "::ffff:192.0.2.1": "192.0.2.1/32", "2001:db8::1": "2001:db8::/64", "2001:db8::ffff:1": "2001:db8::/64",
	} {
		if got := origin(from(a).from); got != netip.MustParsePrefix(want) {
			t.Errorf("%s belongs to %s, want %s", a, got, want)
		}
	}
	zoned := &net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"}
	if got := origin(zoned); got != netip.MustParsePrefix("fe80::/64") {
		t.Errorf("%s belongs to %s", zoned, got)
	}
}

// TestStrangersMakeRoom: of connections that do nothing only so many are kept, and
// who comes then is answered.
func TestStrangersMakeRoom(t *testing.T) {
	attacked(t, nil, func(t *testing.T, dial func() net.Conn) {
		all := make([]net.Conn, 2*usualBounds.unauthenticated)
		for i := range all {
			all[i] = dial()
			defer all[i].Close()
		}
		synctest.Wait()
		ended := 0
		for _, c := range all {
			c.SetReadDeadline(time.Now().Add(time.Nanosecond)) //nolint:errcheck // a pipe has them
			if _, err := c.Read(make([]byte, 1)); err == io.EOF {
				ended++
			}
		}
		if want := len(all) - usualBounds.unauthenticated; ended != want {
			t.Errorf("%d of %d were closed, want %d", ended, len(all), want)
		}
		conn := dial()
		defer conn.Close()
		check.Value(io.WriteString(conn, "GET /nowhere HTTP/1.1\r\nHost: n1\r\n\r\n"))(t)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "HTTP/1.1 404") {
			t.Errorf("answered %q, %v", line, err)
		}
	})
}

// TestRefusedAndGone: with the answer to who may not the connection ends.
func TestRefusedAndGone(t *testing.T) {
	nobodyKnown := authenticator.RequestFunc(nobody)
	s := &Server{config: Config{Node: "n1", Log: zerolog.Nop(), Authenticator: nobodyKnown}, mux: http.NewServeMux(), limiter: newConnLimiter(usualBounds, zerolog.Nop())}
	for _, known := range []bool{false, true} {
		g := s.limiter.add(from("192.0.2.1"))
		g.authenticated.Store(known)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(remember(t.Context(), g), http.MethodGet, "/", nil))
		if w.Code != http.StatusUnauthorized || (w.Header().Get("Connection") == "close") == known {
			t.Errorf("known: %t: %d, %v", known, w.Code, w.Header())
		}
		if s.limiter.requests != 0 {
			t.Errorf("%d requests are left", s.limiter.requests)
		}
	}
}

// TestLetIn: with its first request that is let in a connection is no stranger's
// any more, whatever HTTP it speaks; and with one that is not, it ends.
func TestLetIn(t *testing.T) {
	pair := check.Value(signedPair())(t)
	byHeader := authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: r.Header.Get("User")}}, r.Header.Get("User") != "", nil
	})
	allowed := authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionAllow, "", nil
	})
	for version, h2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(version, func(t *testing.T) {
			s := check.Value(Listen(Config{
				Address: "127.0.0.1:0", Node: "n1", TLS: &tls.Config{Certificates: []tls.Certificate{pair}}, Log: zerolog.Nop(),
				Authenticator: byHeader, Authorizer: allowed,
			}))(t)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Serve(ctx) }()
			transport := &http.Transport{ForceAttemptHTTP2: h2, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the test's own
			ask := func(name string) *http.Response {
				r := check.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.Address()+"/nowhere", nil))(t)
				r.Header.Set("User", name)
				answer := check.Value(transport.RoundTrip(r))(t)
				io.Copy(io.Discard, answer.Body) //nolint:errcheck // it may be cut off
				answer.Body.Close()
				return answer
			}
			counts := func() (strangers, known int) {
				s.limiter.mu.Lock()
				defer s.limiter.mu.Unlock()
				return len(s.limiter.unauthenticated), len(s.limiter.authenticated)
			}
			if a := ask(""); a.StatusCode != http.StatusUnauthorized || a.Proto != version {
				t.Errorf("answered %s by %s", a.Status, a.Proto)
			}
			if a := ask("alice"); a.StatusCode != http.StatusNotFound {
				t.Errorf("answered %s", a.Status)
			}
			if _, known := counts(); known != 1 {
				t.Errorf("%d are known", known)
			}
			if a := ask(""); a.StatusCode != http.StatusUnauthorized {
				t.Errorf("answered %s", a.Status)
			}
			if _, known := counts(); known != 1 {
				t.Errorf("%d are known, after one of its requests was refused", known)
			}
			transport.CloseIdleConnections()
			stop()
			check.Error(t, <-ended)
			check.Until(t, "no connection is left", func() bool { // each goes with its own goroutine
				strangers, known := counts()
				return strangers+known == 0
			})
			if s.limiter.requests != 0 || s.limiter.bytes != 0 {
				t.Errorf("%d requests and %d bytes are left", s.limiter.requests, s.limiter.bytes)
			}
		})
	}
}
