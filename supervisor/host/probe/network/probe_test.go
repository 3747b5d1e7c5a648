package network

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// hostPort is where a server of a test listens.
func hostPort(t *testing.T, address string) (string, int) {
	t.Helper()
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		address = u.Host
	}
	host, port := check.Values(net.SplitHostPort(address))(t)
	n := check.Value(strconv.Atoi(port))(t)
	return host, n
}

func probeHTTP(ctx context.Context, q probe.HTTP, timeout time.Duration) (a port.HTTPAnswer, err error) {
	err = hosttest.Wait(func(done func(error)) {
		New().ProbeHTTP(ctx, q, timeout, func(got port.HTTPAnswer, err error) {
			a = got
			done(err)
		})
	})
	return a, err
}

func TestProbeHTTP(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a redirect to another host was followed")
	}))
	defer elsewhere.Close()
	other := strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1)
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.Repeat("x", 1<<20))
		if r.UserAgent() != "kube-probe/1.36" || r.Header.Get("Accept") != "*/*" || r.Header.Get("Accept-Encoding") != "" || !r.Close {
			t.Errorf("sent %v", r.Header)
		}
	})
	mux.HandleFunc("/headers", func(_ http.ResponseWriter, r *http.Request) {
		if r.Host != "example.com" || r.UserAgent() != "" || len(r.Header["X-A"]) != 2 || r.Header["Accept"] != nil || r.URL.RawQuery != "a=b" {
			t.Errorf("sent %s %s %v", r.Host, r.URL, r.Header)
		}
	})
	mux.HandleFunc("/bad", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, "not now")
	})
	mux.HandleFunc("/here", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/bad", http.StatusFound) })
	mux.HandleFunc("/there", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusFound) })
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	for _, server := range []*httptest.Server{httptest.NewServer(mux), httptest.NewTLSServer(mux)} {
		defer server.Close()
		q := probe.HTTP{TLS: strings.HasPrefix(server.URL, "https")}
		q.Host, q.Port = hostPort(t, server.URL)
		for path, want := range map[string]int{"/ok": 200, "/there": 302, "/here": 503, "/bad": 503, "/nothing": 404} {
			q.Path = path
			a, err := probeHTTP(t.Context(), q, time.Minute)
			if err != nil || a.Status != want || len(a.Body) > 10<<10 {
				t.Errorf("%s: status %d with %d bytes, %v; want %d", path, a.Status, len(a.Body), err, want)
			}
		}
		q.Path = "/loop"
		_, err := probeHTTP(t.Context(), q, time.Minute)
		hosttest.WantError(t, err, port.Other, "ProbeHTTP", "stopped after 10 redirects")
		q.Path, q.Headers = "headers?a=b", []v1.HTTPHeader{
			{Name: "host", Value: "example.com"}, {Name: "user-agent", Value: ""}, {Name: "X-A", Value: "1"}, {Name: "x-a", Value: "2"},
			{Name: "Accept", Value: ""},
		}
		if _, err := probeHTTP(t.Context(), q, time.Minute); err != nil {
			t.Error(err)
		}
	}
}

// TestProbeOfASlowBody: the status is there, and why the body is not.
func TestProbeOfASlowBody(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "begins")
		check.Error(t, http.NewResponseController(w).Flush())
		<-r.Context().Done()
	})
	mux.HandleFunc("/broken", brokenBody(t))
	server := httptest.NewServer(mux)
	defer server.Close()
	q := probe.HTTP{}
	q.Host, q.Port = hostPort(t, server.URL)
	for path, c := range map[string]struct {
		timeout time.Duration
		unread  string
	}{"/slow": {2 * time.Second, "while reading body"}, "/broken": {time.Minute, "unexpected EOF"}} {
		q.Path = path
		a, err := probeHTTP(t.Context(), q, c.timeout)
		if err != nil || a.Status != http.StatusOK || !strings.Contains(a.Unread, c.unread) {
			t.Errorf("%s: status %d, %q, %v", path, a.Status, a.Unread, err)
		}
	}
}

// TestProbeOfManyHeaders: a server may set as many as any client takes.
func TestProbeOfManyHeaders(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := range 200 {
			w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 1<<10))
		}
	}))
	defer server.Close()
	q := probe.HTTP{}
	q.Host, q.Port = hostPort(t, server.URL)
	if a, err := probeHTTP(t.Context(), q, time.Minute); err != nil || a.Status != http.StatusOK {
		t.Errorf("status %d, %v", a.Status, err)
	}
}

// TestProbeHTTP2: a server that speaks nothing else behind TLS.
func TestProbeHTTP2(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			w.WriteHeader(http.StatusHTTPVersionNotSupported)
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	q := probe.HTTP{TLS: true}
	q.Host, q.Port = hostPort(t, server.URL)
	if a, err := probeHTTP(t.Context(), q, time.Minute); err != nil || a.Status != http.StatusOK {
		t.Errorf("status %d, %v", a.Status, err)
	}
	// Hooks never did.
	hook := &http.Client{Transport: New().client.Transport}
	if a, err := hook.Get(server.URL); err != nil || a.StatusCode != http.StatusHTTPVersionNotSupported || a.Body.Close() != nil {
		t.Errorf("a hook: %v, %v", a, err)
	}
}

// TestProbesWithoutAnAnswer: nobody listens, nobody answers, the caller gives up.
func TestProbesWithoutAnAnswer(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	silent := check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
		}
	}()
	defer func() {
		silent.Close()
		<-ended
	}()
	host, number := hostPort(t, silent.Addr().String())
	gone := httptest.NewServer(http.NotFoundHandler())
	_, closed := hostPort(t, gone.URL)
	gone.Close()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	n := New()
	grpcStatus := func(done func(error)) func(string, error) { return func(_ string, err error) { done(err) } }
	httpAnswer := func(done func(error)) func(port.HTTPAnswer, error) {
		return func(_ port.HTTPAnswer, err error) { done(err) }
	}
	short := 60 * time.Millisecond
	for _, c := range []struct {
		name string
		ask  func(context.Context, int, time.Duration, func(error))
	}{
		{"http", func(ctx context.Context, p int, d time.Duration, done func(error)) {
			n.ProbeHTTP(ctx, probe.HTTP{Host: host, Port: p, Path: "/x"}, d, httpAnswer(done))
		}},
		{"grpc", func(ctx context.Context, p int, d time.Duration, done func(error)) {
			n.ProbeGRPC(ctx, probe.GRPC{Host: host, Port: p}, d, grpcStatus(done))
		}},
		{"tcp", func(ctx context.Context, p int, d time.Duration, done func(error)) {
			n.ProbeTCP(ctx, probe.TCP{Host: host, Port: p}, d, done)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "tcp" {
				hosttest.WantError(t, hosttest.Wait(func(done func(error)) { c.ask(t.Context(), number, short, done) }), port.Deadline)
			}
			hosttest.WantError(t, hosttest.Wait(func(done func(error)) { c.ask(canceled, number, time.Minute, done) }), port.Canceled)
			nobody := func(done func(error)) { c.ask(t.Context(), closed, time.Minute, done) }
			if c.name != "grpc" { // which tries again until its end
				hosttest.WantError(t, hosttest.Wait(nobody), port.Unavailable, "connection refused")
			}
		})
	}
}

func TestProbeTCP(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	host, number := hostPort(t, server.URL)
	check.Error(t, hosttest.Wait(func(done func(error)) {
		New().ProbeTCP(t.Context(), probe.TCP{Host: host, Port: number}, time.Minute, done)
	}))
}

// serveGRPC serves until it is stopped.
func serveGRPC(t *testing.T, l net.Listener, register func(*grpc.Server)) (stop func()) {
	s := grpc.NewServer()
	register(s)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		check.Error(t, s.Serve(l))
	}()
	return func() { s.Stop(); <-ended }
}

// impolite closes its first connection.
type impolite struct {
	net.Listener
	once sync.Once
}

func (l *impolite) Accept() (net.Conn, error) {
	l.once.Do(func() {
		if conn, err := l.Listener.Accept(); err == nil {
			conn.Close()
		}
	})
	return l.Listener.Accept()
}

func TestProbeGRPC(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	listen := func(register func(*grpc.Server)) (int, func()) {
		l := check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
		_, number := hostPort(t, l.Addr().String())
		return number, serveGRPC(t, l, register)
	}
	state := health.NewServer()
	state.SetServingStatus("sick", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	number, stop := listen(func(s *grpc.Server) { grpc_health_v1.RegisterHealthServer(s, state) })
	defer stop()
	other, stopOther := listen(func(*grpc.Server) {})
	defer stopOther()
	ask := func(number int, service string) (status string, err error) {
		err = hosttest.Wait(func(done func(error)) {
			New().ProbeGRPC(t.Context(), probe.GRPC{Host: "127.0.0.1", Port: number, Service: service}, time.Minute, func(s string, err error) {
				status = s
				done(err)
			})
		})
		return status, err
	}
	for service, want := range map[string]string{"": "SERVING", "sick": "NOT_SERVING"} {
		check.Equal(t, check.Value(ask(number, service))(t), want, "service %q", service)
	}
	// It is tried again within the timeout.
	l := &impolite{Listener: check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)}
	defer serveGRPC(t, l, func(s *grpc.Server) { grpc_health_v1.RegisterHealthServer(s, state) })()
	_, second := hostPort(t, l.Addr().String())
	if got, err := ask(second, ""); err != nil || got != "SERVING" {
		t.Errorf("the second connection: %s, %v", got, err)
	}
	_, err := ask(number, "unknown")
	hosttest.WantError(t, err, port.Other, "health rpc probe failed", "unknown service")
	_, err = ask(other, "")
	hosttest.WantError(t, err, port.Unsupported, "does not implement the grpc health protocol")
}
