package streams_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/serve/streams"
	"github.com/troupe-dev/troupe/tests/check"
)

// ask makes a request; one that wants SPDY unless upgrade says else.
func (w *world) ask(t *testing.T, method, path, upgrade string, header ...string) (int, string) {
	t.Helper()
	r := check.Value(http.NewRequestWithContext(t.Context(), method, w.node.URL+path, nil))(t)
	if upgrade != "" {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", upgrade)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer := check.Value(http.DefaultTransport.RoundTrip(r))(t)
	defer answer.Body.Close()
	body := check.Value(io.ReadAll(answer.Body))(t)
	return answer.StatusCode, strings.TrimSpace(string(body))
}

func TestRefusals(t *testing.T) {
	const spdy, socket = "SPDY/3.1", "websocket"
	for _, tt := range []struct {
		name, method, path, upgrade string
		change                      func(*world)
		status                      int
		text                        string
	}{
		{"unknown pod", "POST", "/exec/shop/nobody/app?output=1&command=exit", spdy, nil, 404, "pod does not exist"},
		{"unknown namespace", "POST", "/attach/other/web/app?output=1", spdy, nil, 404, "pod does not exist"},
		{"unknown pod to forward to", "POST", "/portForward/shop/nobody", spdy, nil, 404, "pod does not exist"},
		{"unknown pod to run in", "POST", "/run/shop/nobody/app?cmd=ls", "", nil, 404, "pod does not exist"},
		{"another UID", "POST", "/exec/shop/web/u2/app?output=1&command=exit", spdy, nil, 500, `container not found ("app")`},
		{"another UID to attach", "POST", "/attach/shop/web/u2/app?output=1", spdy, nil, 500, `container not found ("app")`},
		{"another UID to run in", "POST", "/run/shop/web/u2/app?cmd=ls", "", nil, 500, `container not found ("app")`},
		{"another UID to forward to", "POST", "/portForward/shop/web/u2", spdy, nil, 404, "pod not found"},
		{"unknown container", "POST", "/exec/shop/web/nothing?output=1&command=exit", spdy, nil, 500, `container not found ("nothing")`},
		{"path for a container", "POST", "/exec/shop/web/..%2f..%2fapp?output=1&command=exit", spdy, nil, 500, `container not found ("../../app")`},
		{"container that has ended", "POST", "/exec/shop/web/init?output=1&command=exit", spdy, nil, 500, `container not found ("init")`},
		{"container that has ended, to attach", "POST", "/attach/shop/web/init?output=1", spdy, nil, 500, `container not found ("init")`},
		{"container that has ended, to run in", "POST", "/run/shop/web/init?cmd=ls", "", nil, 500, `container not found ("init")`},
		{"no sandbox", "POST", "/portForward/shop/web", spdy, func(w *world) {
			w.fakeRuntime.pods["u1"] = observed.Pod{Sandboxes: []observed.Sandbox{{ID: "s", State: observed.SandboxNotReady}}}
		}, 500, `pod not found ("web_shop")`},
		{"nothing to stream", "POST", "/exec/shop/web/app?command=exit", spdy, nil, 400, "you must specify at least 1 of stdin, stdout, stderr"},
		{"stderr of a terminal alone", "POST", "/exec/shop/web/app?command=exit&error=1&tty=1", spdy, nil, 400, "you must specify at least 1 of stdin, stdout, stderr"},
		{"nothing to attach", "GET", "/attach/shop/web/app?input=true", socket, nil, 400, "you must specify at least 1 of stdin, stdout, stderr"},
		{"no command", "POST", "/exec/shop/web/app?output=1", spdy, nil, 400, "you must specify at least one command for the container"},
		{"no command to run", "POST", "/run/shop/web/app?cmd=%20", "", nil, 400, `query parameter "cmd" is required`},
		{"no upgrade", "POST", "/exec/shop/web/app?output=1&command=exit", "", nil, 400, "Upgrade request required"},
		{"no upgrade to attach", "POST", "/attach/shop/web/app?output=1", "", nil, 400, "Upgrade request required"},
		{"no upgrade to forward", "POST", "/portForward/shop/web", "", nil, 400, "Upgrade request required"},
		{"no port", "GET", "/portForward/shop/web", socket, nil, 400, `query parameter "port" is required`},
		{"bad port", "GET", "/portForward/shop/web?port=http", socket, nil, 400, `unable to parse "http" as a port`},
		{"port too high", "GET", "/portForward/shop/web?port=80&port=65536", socket, nil, 400, `unable to parse "65536" as a port`},
		{"port zero", "GET", "/portForward/shop/web?port=0", socket, nil, 400, `port "0" must be > 0`},
		{"run reads", "GET", "/run/shop/web/app?cmd=ls", "", nil, 405, "Method Not Allowed"},
		{"the runtime does not answer", "POST", "/exec/shop/web/app?output=1&command=exit", spdy, func(w *world) {
			w.err = &port.Error{Kind: port.Unavailable, Verb: "ListContainers", Detail: "no such socket"}
		}, 500, "ListContainers: unavailable: no such socket"},
		{"too many streams", "POST", "/exec/shop/web/app?output=1&command=exit", spdy, func(w *world) {
			w.err = &port.Error{Kind: port.TooManyRequests, Verb: "Exec", Detail: "maximum number of in-flight requests exceeded"}
		}, 429, "Exec: too many requests: maximum"},
		{"a container that is gone", "POST", "/exec/shop/web/app?output=1&command=exit", spdy, func(w *world) {
			w.err = &port.Error{Kind: port.NotFound, Verb: "Exec", Detail: "no such container"}
		}, 404, "Exec: not found"},
		{"no URL", "POST", "/exec/shop/web/app?output=1&command=exit", spdy, func(w *world) { w.fakeRuntime.url = "/exec/abc" }, 500,
			`the runtime returned the streaming server URL "/exec/abc"`},
		{"nobody there", "POST", "/exec/shop/web/app?output=1&command=exit", spdy, func(w *world) { w.fakeRuntime.url = "http://127.0.0.1:1/x" }, 500,
			"the runtime's streaming server: "},
		{"nobody there for v5", "GET", "/exec/shop/web/app?output=1&command=exit", spdy, func(w *world) { w.fakeRuntime.url = "http://127.0.0.1:1/x" }, 500,
			"the runtime's streaming server: "},
		{"forgotten stream", "POST", "/exec/shop/web/app?output=1&command=exit", spdy, func(w *world) { w.fakeRuntime.url = w.url(t, "/exec/abc").String() }, 404,
			"404 page not found"},
		{"the command fails", "POST", "/run/shop/web/app?cmd=fail+now", "", nil, 500, "command 'fail now' exited with 3: no"},
		{"run", "POST", "/run/shop/web/app?cmd=ls+-l", "", nil, 200, `app-2 ["ls" "-l"]` + "\nwarning"},
		{"run, by UID", "POST", "/run/shop/web/u1/app?cmd=ls", "", nil, 200, `app-2 ["ls"]` + "\nwarning"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			if tt.change != nil {
				tt.change(w)
			}
			status, text := w.ask(t, tt.method, tt.path, tt.upgrade)
			if status != tt.status || !strings.HasPrefix(text, tt.text) {
				t.Errorf("answered %d %q, want %d %q", status, text, tt.status, tt.text)
			}
			if tt.status == 400 && len(w.asked) > 0 {
				t.Errorf("the runtime was asked: %v", w.asked)
			}
		})
	}
}

// TestCredential: what a client shows to the node is not shown to the runtime.
func TestCredential(t *testing.T) {
	got := make(chan http.Header, 1)
	runtime := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header
		http.Error(w, "no such stream", http.StatusNotFound)
	}))
	defer runtime.Close()
	w := newWorld(t)
	w.fakeRuntime.url = runtime.URL
	w.ask(t, "POST", "/exec/shop/web/app?output=1&command=exit", "SPDY/3.1", "Authorization", "Bearer secret", "Cookie", "a=secret", "X-Mine", "b")
	if h := <-got; h.Get("Authorization") != "" || h.Get("Cookie") != "" || h.Get("X-Mine") != "b" {
		t.Errorf("the runtime gets %v", h)
	}
}

// TestWhichPod has two pods of a name: one that ends and one that comes.
func TestWhichPod(t *testing.T) {
	w := newWorld(t)
	w.pods = append([]*v1.Pod{web("u2")}, w.pods...)
	run := func(path string) string {
		_, text := w.ask(t, "POST", path, "")
		return text
	}
	if got := run("/run/shop/web/app?cmd=ls"); !strings.HasPrefix(got, "app-2 ") {
		t.Errorf("while the older one runs: %q", got)
	}
	w.fakeRuntime.pods["u2"] = observed.Pod{Containers: []observed.Container{{ID: "app-9", Name: "app", State: observed.ContainerRunning}}}
	for path, want := range map[string]string{
		"/run/shop/web/app?cmd=ls": "app-9 ", "/run/shop/web/u1/app?cmd=ls": "app-2 ", "/run/shop/web/u2/app?cmd=ls": "app-9 ",
	} {
		if got := run(path); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %s", path, got, want)
		}
	}
	// A static pod's UID in the apiserver is its mirror's.
	w.pods = []*v1.Pod{web("u1")}
	w.pods[0].Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	if got := run("/run/shop/web/" + string(types.UID("mirror")) + "/app?cmd=ls"); !strings.HasPrefix(got, "app-2 ") {
		t.Errorf("a static pod by its mirror's UID: %q", got)
	}
}

func TestConfig(t *testing.T) {
	if _, err := streams.New(streams.Config{}); err == nil {
		t.Error("a configuration without a runtime is taken")
	}
	if err := (streams.Config{Runtime: &fakeRuntime{}}).Validate(); err == nil {
		t.Error("a configuration without pods is taken")
	}
	if err := (streams.Config{Runtime: &fakeRuntime{}, Pods: failing}).Validate(); err == nil {
		t.Error("a configuration that nobody counts for is taken")
	}
	w := newWorld(t, func(c *streams.Config) { c.Pods = failing })
	if status, text := w.ask(t, "POST", "/run/shop/web/app?cmd=ls", ""); status != 500 || text != "nobody answers" {
		t.Errorf("%d %q", status, text)
	}
	w.s.Close()
	if status, _ := w.ask(t, "POST", "/run/shop/web/app?cmd=ls", ""); status != 503 {
		t.Errorf("after Close: %d", status)
	}
}
