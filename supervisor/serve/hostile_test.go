package serve

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/troupe-dev/troupe/tests/check"
)

// pipes is a listener whose connections are in memory: on them the test's clock
// holds.
type pipes struct {
	waiting chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func newPipes() *pipes { return &pipes{waiting: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.waiting:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

func (p *pipes) dial() net.Conn {
	here, there := net.Pipe()
	p.waiting <- there
	return here
}

// attacked is a server of its own clock with a client in front of it. Whatever the
// client does, nothing of the server may be left at the end: the bubble of the
// test would not end.
func attacked(t *testing.T, conf *tls.Config, attack func(t *testing.T, dial func() net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		everybody := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
			return &authenticator.Response{User: &user.DefaultInfo{Name: "mallory"}}, true, nil
		})
		allowed := authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
			return authorizer.DecisionAllow, "", nil
		})
		s := check.Value(Listen(Config{
			Address: "127.0.0.1:0", Node: "n1", TLS: conf, Log: zerolog.Nop(), Authenticator: everybody, Authorizer: allowed,
			Routes: []Route{
				{Path: "/much", Methods: []string{"GET"}, Subresources: Proxy, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					for range 100 {
						if _, err := w.Write(make([]byte, 1<<20)); err != nil {
							return
						}
					}
				})},
				{Path: "/body", Methods: []string{"POST"}, Subresources: Proxy, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if _, err := io.Copy(io.Discard, r.Body); err != nil {
						http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
					}
				})},
				{Path: "/hang", Methods: []string{"GET"}, Subresources: Proxy, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					<-r.Context().Done()
					http.Error(w, r.Context().Err().Error(), http.StatusInternalServerError)
				})},
			},
		}))(t)
		check.Fatal(t, s.listener.Close())
		memory := newPipes()
		s.listener = memory
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx) }()
		attack(t, memory.dial)
		stop()
		check.Error(t, <-ended)
	})
}

// cutOff is how long it takes until the server ends a connection on which the
// client writes a byte a second.
func cutOff(t *testing.T, conn net.Conn) time.Duration {
	t.Helper()
	began := time.Now()
	var drained sync.WaitGroup
	drained.Go(func() { io.Copy(io.Discard, conn) }) //nolint:errcheck // it is cut
	defer drained.Wait()
	defer conn.Close()
	for time.Since(began) < 10*time.Minute {
		if _, err := conn.Write([]byte("a")); err != nil {
			return time.Since(began)
		}
		time.Sleep(time.Second) // on the test's clock
	}
	t.Error("it goes on for ten minutes")
	return 0
}

// TestSlowClients are cut off, each after what is long for what it does.
func TestSlowClients(t *testing.T) {
	pair := check.Value(signedPair())(t)
	for name, c := range map[string]struct {
		conf  *tls.Config
		first string
		most  time.Duration
	}{
		"a handshake":            {&tls.Config{Certificates: []tls.Certificate{pair}}, "", headerTimeout},
		"a header":               {nil, "GET /much HTTP/1.1\r\nHost: n1\r\nX-A: ", headerTimeout},
		"a request line":         {nil, "GET /", headerTimeout},
		"a body":                 {nil, "POST /body HTTP/1.1\r\nHost: n1\r\nContent-Length: 100000\r\n\r\n", shortTimeout},
		"a body without a route": {nil, "POST /nowhere HTTP/1.1\r\nHost: n1\r\nContent-Length: 100000\r\n\r\n", shortTimeout},
		"a chunk":                {nil, "POST /body HTTP/1.1\r\nHost: n1\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\n", shortTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			attacked(t, c.conf, func(t *testing.T, dial func() net.Conn) {
				conn := dial()
				if c.first != "" {
					check.Value(io.WriteString(conn, c.first))(t)
				}
				if took := cutOff(t, conn); took > c.most+5*time.Second {
					t.Errorf("it took %s, want %s", took, c.most)
				}
			})
		})
	}
}

func signedPair() (tls.Certificate, error) {
	certPEM, keyPEM, err := signOwn(time.Now(), "n1", nil, []string{"n1"})
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certPEM, keyPEM)
}

// TestNoReader: an answer that nobody takes is given up.
func TestNoReader(t *testing.T) {
	attacked(t, nil, func(t *testing.T, dial func() net.Conn) {
		conn := dial()
		defer conn.Close()
		check.Value(io.WriteString(conn, "GET /much HTTP/1.1\r\nHost: n1\r\n\r\n"))(t)
		time.Sleep(shortTimeout + time.Second) // on the test's clock
		n, err := io.Copy(io.Discard, conn)
		if n > 1<<20 || err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%d bytes of it were kept, %v", n, err)
		}
	})
}

// TestTooMuch: what is larger than anybody needs gets its status, and no more of
// it is read.
func TestTooMuch(t *testing.T) {
	for name, c := range map[string]struct {
		head   string
		repeat string
		status string
		most   int
	}{
		"header": {"GET /much HTTP/1.1\r\nHost: n1\r\n", "X-A: " + strings.Repeat("a", 1000) + "\r\n", "431", headerLimit + 64<<10},
		"path":   {"GET /much?", strings.Repeat("a", 1000), "431", headerLimit + 64<<10},
		"body": {"POST /body HTTP/1.1\r\nHost: n1\r\nTransfer-Encoding: chunked\r\n\r\n", "3e8\r\n" + strings.Repeat("a", 1000) + "\r\n", "413",
			bodyLimit + 512<<10},
	} {
		t.Run(name, func(t *testing.T) {
			attacked(t, nil, func(t *testing.T, dial func() net.Conn) {
				conn := dial()
				defer conn.Close()
				answer := make(chan string, 1)
				go func() {
					line, err := bufio.NewReader(conn).ReadString('\n')
					if err != nil {
						line = err.Error()
					}
					answer <- line
				}()
				sent, err := io.WriteString(conn, c.head)
				for err == nil && sent < 64<<20 {
					var n int
					n, err = io.WriteString(conn, c.repeat)
					sent += n
				}
				if sent > c.most {
					t.Errorf("%d bytes were taken, want at most %d", sent, c.most)
				}
				if line := <-answer; !strings.HasPrefix(line, "HTTP/1.1 "+c.status) {
					t.Errorf("answered %q, want %s", line, c.status)
				}
			})
		})
	}
}

// TestLongCommand: the longest argument of a process fits into the query of an exec, however it is escaped.
func TestLongCommand(t *testing.T) {
	attacked(t, nil, func(t *testing.T, dial func() net.Conn) {
		conn := dial()
		defer conn.Close()
		sent := make(chan error, 1)
		go func() {
			_, err := io.WriteString(conn, "POST /body?command="+strings.Repeat("%20", 128<<10)+" HTTP/1.1\r\nHost: n1\r\nContent-Length: 0\r\n\r\n")
			sent <- err
		}()
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "HTTP/1.1 200") {
			t.Errorf("answered %q, %v", line, err)
		}
		check.Error(t, <-sent)
	})
}

// TestManyAtOnce: so many are answered at once for one user, and one more is told to come again.
func TestManyAtOnce(t *testing.T) {
	attacked(t, nil, func(t *testing.T, dial func() net.Conn) {
		ask := func() string {
			conn := dial()
			defer conn.Close()
			if _, err := io.WriteString(conn, "GET /hang HTTP/1.1\r\nHost: n1\r\n\r\n"); err != nil {
				return err.Error()
			}
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				return err.Error()
			}
			return answer.Status + " " + answer.Header.Get("Retry-After")
		}
		var all sync.WaitGroup
		for range shortSlots * userShare / (userShare + 1) {
			all.Go(func() { ask() })
		}
		synctest.Wait()
		if got := ask(); got != "429 Too Many Requests 1" {
			t.Errorf("answered %q", got)
		}
		all.Wait() // each for as long as a short request may take
	})
}
