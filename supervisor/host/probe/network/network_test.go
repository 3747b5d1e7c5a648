package network

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func get(ctx context.Context, r port.HTTPGet) error {
	_, err := ask(ctx, r)
	return err
}

// ask also says whether the answer came without TLS, which was asked for.
func ask(ctx context.Context, r port.HTTPGet) (plain bool, err error) {
	err = hosttest.Wait(func(done func(error)) {
		New().HTTPGet(ctx, r, func(is bool, err error) { plain = is; done(err) })
	})
	return plain, err
}

func TestHTTPGet(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a redirect to another host was followed")
	}))
	defer elsewhere.Close()
	// The same address by another name: another host.
	other := strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1)
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.Repeat("x", 1<<20))
		if r.UserAgent() != "kube-lifecycle/1.36" || r.Header.Get("Accept") != "*/*" {
			t.Errorf("sent %v", r.Header)
		}
	})
	mux.HandleFunc("/headers", func(_ http.ResponseWriter, r *http.Request) {
		if r.Host != "example.com" || r.UserAgent() != "own" || len(r.Header["X-A"]) != 2 || r.Header.Get("Accept") != "text/plain" {
			t.Errorf("sent %s %v", r.Host, r.Header)
		}
	})
	mux.HandleFunc("/bad", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	mux.HandleFunc("/broken", brokenBody(t))
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
	}
	mux.HandleFunc("/here", redirect("/bad"))
	mux.HandleFunc("/there", redirect(other))
	mux.HandleFunc("/loop", redirect("/loop"))
	for _, server := range []*httptest.Server{httptest.NewServer(mux), httptest.NewTLSServer(mux)} {
		defer server.Close()
		for _, c := range []struct {
			path string
			want string
		}{
			{"/ok", ""},
			{"/there", ""},
			// Whatever the answer is, the request was made.
			{"/here", ""},
			{"/bad", ""},
			{"/nothing", ""},
			{"/broken", ""},
			{"/loop", "stopped after 10 redirects"},
		} {
			err := get(t.Context(), port.HTTPGet{URL: server.URL + c.path})
			if c.want != "" {
				hosttest.WantError(t, err, port.Other, "HTTPGet "+server.URL+c.path, c.want)
			} else if err != nil {
				t.Errorf("%s: %v", c.path, err)
			}
		}
		if err := get(t.Context(), port.HTTPGet{URL: server.URL + "/headers", Headers: []v1.HTTPHeader{
			{Name: "host", Value: "example.com"}, {Name: "user-agent", Value: "own"}, {Name: "X-A", Value: "1"}, {Name: "x-a", Value: "2"},
			{Name: "Accept", Value: "text/plain"},
		}}); err != nil {
			t.Error(err)
		}
	}
}

func TestHTTPGetWithoutAnAnswer(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(release)
	short, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	hosttest.WantError(t, get(short, port.HTTPGet{URL: server.URL}), port.Deadline)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	hosttest.WantError(t, get(canceled, port.HTTPGet{URL: server.URL}), port.Canceled)

	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	hosttest.WantError(t, get(t.Context(), port.HTTPGet{URL: closed.URL}), port.Unavailable, "connection refused")
	hosttest.WantError(t, get(t.Context(), port.HTTPGet{URL: "http://a b/"}), port.InvalidConfig)
}

// brokenBody answers with the beginning of a body and breaks the connection.
func brokenBody(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, "begins")
		check.Fatal(t, http.NewResponseController(w).Flush())
		panic(http.ErrAbortHandler)
	}
}

func TestHTTPSHookOfAPlainServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.Header.Get("X-A") != "1" {
			t.Errorf("sent %v", r.Header)
		}
	}))
	defer server.Close()
	url := strings.Replace(server.URL, "http:", "https:", 1)
	if plain, err := ask(t.Context(), port.HTTPGet{URL: url, Headers: []v1.HTTPHeader{
		{Name: "authorization", Value: "secret"}, {Name: "X-A", Value: "1"},
	}}); err != nil || !plain {
		t.Errorf("without TLS: %v, %v", plain, err)
	}
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	if plain, err := ask(t.Context(), port.HTTPGet{URL: secure.URL}); err != nil || plain {
		t.Errorf("with TLS: plain %v, %v", plain, err)
	}
	// If that fails too, it is told why the first request did.
	server.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	hosttest.WantError(t, get(t.Context(), port.HTTPGet{URL: url}), port.Other, "server gave HTTP response to HTTPS client")
}
