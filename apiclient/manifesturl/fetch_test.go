package manifesturl

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fetcher serves handler and gives a Fetcher for it.
func fetcher(t *testing.T, handler http.HandlerFunc, change func(*Config)) *Fetcher {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	config := Config{URL: server.URL + "/pods", Timeout: 10 * time.Second, Transport: server.Client().Transport}
	if change != nil {
		change(&config)
	}
	return check.Value(New(config))(t)
}

func TestFetchAndNotModified(t *testing.T) {
	for _, by := range []string{"ETag", "Last-Modified", "content"} {
		t.Run(by, func(t *testing.T) {
			body, sent := "a", 0
			f := fetcher(t, func(w http.ResponseWriter, r *http.Request) {
				tag := `"` + body + `"`
				switch by {
				case "ETag":
					w.Header().Set("ETag", tag)
					if r.Header.Get("If-None-Match") == tag {
						w.WriteHeader(http.StatusNotModified)
						return
					}
				case "Last-Modified":
					w.Header().Set("Last-Modified", body)
					if r.Header.Get("If-Modified-Since") == body {
						w.WriteHeader(http.StatusNotModified)
						return
					}
				}
				sent++
				w.Write([]byte(body))
			}, nil)
			var version Version
			for i, step := range []struct {
				body, want string
			}{{"a", "a"}, {"a", ""}, {"b", "b"}, {"b", ""}, {"a", "a"}} {
				body = step.body
				got := check.Value(f.Fetch(context.Background(), version))(t)
				if string(got.Data) != step.want || got.NotModified != (step.want == "") {
					t.Errorf("step %d: %q, not modified %v", i, got.Data, got.NotModified)
				}
				version = got.Version
			}
			if want := map[bool]int{true: 5, false: 3}[by == "content"]; sent != want {
				t.Errorf("the body was sent %d times, want %d", sent, want)
			}
		})
	}
}

func TestFetchErrorsSayWhatToDo(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	cases := map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"404":         {status(404), "404 Not Found: check staticPodURL"},
		"403":         {status(403), "403 Forbidden: check staticPodURLHeader"},
		"503":         {status(503), "503 Service Unavailable: the server failed"},
		"204":         {status(204), "204 No Content: want 200 OK"},
		"304 unasked": {status(304), "304 Not Modified: want 200 OK"},
		"empty":       {status(200), "the answer is empty: to run no pods, give an empty PodList"},
		"a web page":  {func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html><body>login")) }, "is this a login or error page?"},
		"too long":    {func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, MaxSize+1)) }, "more than 10 MiB"},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			w.Write([]byte("x"))
		}, "unexpected EOF"},
		"redirect loop": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }, "redirected 10 times"},
		"file scheme": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		}, `unsupported protocol scheme "file"`},
		"hangs up early": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := fetcher(t, c.handler, nil)
			got, err := f.Fetch(context.Background(), Version{})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), f.Name()) {
				t.Errorf("error %v, want %s", err, c.want)
			}
			if got.Data != nil || got.NotModified {
				t.Errorf("data in spite of an error: %+v", got)
			}
		})
	}
}

// TestFetchFollows: what Go's client follows, and so a kubelet, but not from https to http.
func TestFetchFollows(t *testing.T) {
	const manifest = "apiVersion: v1"
	serve := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html") // as many servers say of all that they have
		w.Write([]byte(manifest))
	}
	plain := httptest.NewServer(http.HandlerFunc(serve))
	defer plain.Close()
	secret := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/down" {
			http.Redirect(w, r, plain.URL, http.StatusFound)
			return
		}
		serve(w, r)
	}))
	defer secret.Close()
	up := fetcher(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, secret.URL, http.StatusFound) },
		func(c *Config) { c.Transport = secret.Client().Transport })
	if got, err := up.Fetch(t.Context(), Version{}); err != nil || string(got.Data) != manifest {
		t.Errorf("from http to https: %q, %v", got.Data, err)
	}
	down := check.Value(New(Config{URL: secret.URL + "/down", Timeout: time.Minute, Transport: secret.Client().Transport}))(t)
	if _, err := down.Fetch(t.Context(), Version{}); err == nil || !strings.Contains(err.Error(), "a redirect away from https is not followed") {
		t.Errorf("from https to http: %v", err)
	}
}

func TestFetchTimesOut(t *testing.T) {
	release := make(chan struct{})
	f := fetcher(t, func(http.ResponseWriter, *http.Request) { <-release }, func(c *Config) { c.Timeout = time.Millisecond })
	defer close(release)
	_, err := f.Fetch(context.Background(), Version{})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no complete answer within 1ms") {
		t.Errorf("%v", err)
	}
}

func TestFetchSendsHeadersToItsOwnHostOnly(t *testing.T) {
	var elsewhere http.Header
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		elsewhere = r.Header
		w.Write([]byte("x"))
	}))
	defer other.Close()
	var own http.Header
	f := fetcher(t, func(w http.ResponseWriter, r *http.Request) {
		own = r.Header
		http.Redirect(w, r, other.URL, http.StatusFound)
	}, func(c *Config) { c.Header = map[string][]string{"X-Token": {"secret", "two"}, "accept": {"text/x"}} })
	check.Value(f.Fetch(context.Background(), Version{}))(t)
	if got := own.Values("X-Token"); len(got) != 2 || got[0] != "secret" {
		t.Errorf("own host got %v", got)
	}
	if got := own.Values("Accept"); len(got) != 1 || got[0] != "text/x" {
		t.Errorf("Accept is %v", got)
	}
	if elsewhere == nil || elsewhere.Get("X-Token") != "" {
		t.Errorf("another host got %v", elsewhere)
	}
}

func TestConfig(t *testing.T) {
	for url, want := range map[string]string{
		"http://h/p": "", "https://h": "", "ftp://h": "must begin with http://", "h/p": "must begin with http://",
		"http://": "has no host", "http://h:x": "cannot be parsed", "http://u:sec/ret@h": "cannot be parsed (not shown", "ftp://u:secret@h": "ftp://u:xxxxx@h",
	} {
		_, err := New(Config{URL: url, Timeout: 1})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
	check.Fails(t, check.Err(New(Config{URL: "http://h"})), "no error without a timeout")
	f, err := New(Config{URL: "http://u:secret@h/p", Timeout: 1})
	if err != nil || strings.Contains(f.Name(), "secret") {
		t.Errorf("%v %v", f, err)
	}
}
