package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/troupe-dev/troupe/actors/decide/manifest"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/supervisor/timeline"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var at = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func sampleTree() Tree {
	crash := &kernel.CrashReport{
		Path: "/n/pods/u1", Kind: "pod", At: at, Incarnation: 2, Reason: "index out of range", Message: "Observed",
		Last: []string{"a", "b"}, Stack: "main.go:1", Crashes: 3, Decision: kernel.Quarantine, RetryAfter: time.Minute,
	}
	return Tree{
		Node: "n", At: at, DeadLetters: 1, Dropped: 2,
		Pools:   []kernel.PoolState{{Name: "start", Size: 4, Held: 1, Waiting: 2}},
		Crashes: []*kernel.CrashReport{crash},
		Actors: []kernel.ActorInfo{
			{Path: "/n", Kind: "node", Status: "Running"},
			{Path: "/n/pods/u1", Kind: "pod", Label: "default/web", Status: "Quarantined", Restarts: 3, Oldest: &at, Depth: 1, LastCrash: crash,
				Effects: []kernel.EffectInfo{
					{ID: 7, Kind: "StartContainer", Object: "app", Lane: "app", Phase: kernel.EffectStarted, Since: at, HoldsSlot: "start"},
					{ID: 8, Kind: "StopContainer", Lane: "x", Phase: kernel.EffectExpired, Since: at},
				}},
		},
	}
}

func sampleView() podview.View {
	return podview.View{
		Node: "n", Ready: true,
		Pods:     []podview.Pod{{Namespace: "default", Name: "web", UID: "u1", Life: "Syncing", Containers: []podview.Container{}}},
		Problems: []manifest.Problem{{Source: "/m/a.yaml", Field: "spec", Message: "must be given"}},
	}
}

func sampleStory(pod string) (timeline.View, error) {
	switch pod {
	case "web":
		return timeline.View{}, &timeline.AmbiguousError{Pod: pod, Pods: []string{"a/web", "b/web"}}
	case "default/web", "u1":
		return timeline.View{Namespace: "default", Name: "web", UID: "u1", Entries: []timeline.Entry{{Seq: 1, At: at, Kind: "event", What: "Started"}}}, nil
	}
	return timeline.View{}, &timeline.UnknownError{Pod: pod}
}

func sampleConfig(t *testing.T) Config {
	return Config{
		Socket: SocketIn(t.TempDir()), Tree: sampleTree,
		Pods:     func(context.Context) (podview.View, error) { return sampleView(), nil },
		Events:   func(string) []EventView { return nil },
		Timeline: sampleStory,
		Gone: func() []timeline.Listed {
			return []timeline.Listed{{Namespace: "default", Name: "old", UID: "u0", Ended: &at}}
		},
		Letters: func() []timeline.Letter { return []timeline.Letter{{At: at, To: "n/pods/u0", Type: "pod.Wake"}} },
	}
}

// node serves a Config on a socket of its own until the test ends.
func node(t *testing.T, change func(*Config)) Client {
	t.Helper()
	c := sampleConfig(t)
	if change != nil {
		change(&c)
	}
	s := check.Value(Listen(c))(t)
	serve(t, s)
	return Client{Socket: c.Socket}
}

func serve(t *testing.T, s *Server) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	done := false
	stop = func() {
		if done {
			return
		}
		done = true
		cancel()
		check.Error(t, <-ended)
	}
	t.Cleanup(stop)
	return stop
}

func TestClientReadsWhatTheServerWrites(t *testing.T) {
	events := []EventView{{At: at, Pod: "default/web", Reason: "Started", Message: "x"}}
	c := node(t, func(c *Config) {
		c.Events = func(pod string) []EventView {
			if pod == "default/web" {
				return events
			}
			return nil
		}
	})
	tree, err := c.Tree(t.Context())
	if err != nil || !reflect.DeepEqual(tree, sampleTree()) {
		t.Errorf("tree: %v\n got %+v\nwant %+v", err, tree, sampleTree())
	}
	view, err := c.Pods(t.Context())
	if err != nil || !reflect.DeepEqual(view, sampleView()) {
		t.Errorf("pods: %v %+v", err, view)
	}
	got, err := c.Events(t.Context(), "default/web")
	if err != nil || !reflect.DeepEqual(got, events) {
		t.Errorf("events: %v %+v", err, got)
	}
	if got, err = c.Events(t.Context(), ""); err != nil || got == nil || len(got) != 0 {
		t.Errorf("no events: %v %+v", err, got)
	}
}

func TestEveryPhaseAndDecisionIsReadBack(t *testing.T) {
	for p := kernel.EffectQueued; p <= kernel.EffectDropped; p++ {
		for d := kernel.Restart; d <= kernel.Ended; d++ {
			tree := sampleTree()
			tree.Actors[1].Effects[0].Phase, tree.Crashes[0].Decision = p, d
			raw := check.Value(json.Marshal(tree))(t)
			var back Tree
			if err := json.Unmarshal(raw, &back); err != nil || !reflect.DeepEqual(tree, back) {
				t.Errorf("%s, %s: %v", p, d, err)
			}
		}
	}
	for _, raw := range []string{
		`{"actors":[{"effects":[{"phase":"flying"}]}]}`, `{"crashes":[{"decision":"shrug"}]}`, `{"actors":[{"lastCrash":{"decision":""}}]}`,
	} {
		check.Fails(t, json.Unmarshal([]byte(raw), &Tree{}), "%s is taken", raw)
	}
}

func TestTreeAnswersWhenPodsDoNot(t *testing.T) {
	stuck := make(chan struct{})
	c := node(t, func(c *Config) {
		c.Pods = func(ctx context.Context) (podview.View, error) {
			close(stuck)
			<-ctx.Done()
			return podview.View{}, ctx.Err()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := c.Pods(ctx)
		failed <- err
	}()
	<-stuck
	if _, err := c.Tree(t.Context()); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}

	c = node(t, func(c *Config) {
		c.Pods = func(context.Context) (podview.View, error) { return podview.View{}, errors.New("it is quarantined") }
	})
	_, err := c.Pods(t.Context())
	if want := "the podview actor does not answer: it is quarantined: see `troupe tree`"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	c := node(t, nil)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", c.Socket)
	}}}
	for _, q := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"GET", "/healthz", 200, "ok"},
		{"POST", "/v1/pods", 405, "read-only"},
		{"DELETE", "/", 405, "read-only"},
		{"GET", "/", 200, "<title>troupe</title>"},
		{"GET", "/v1/secrets", 404, "/v1/tree"},
		{"GET", "/v1/timeline", 400, "pod parameter is missing"},
		{"GET", "/v1/timeline?pod=none", 404, `not found on this node`},
		{"GET", "/v1/timeline?pod=web", 409, "is ambiguous: give one of a/web, b/web"},
		{"GET", "/v1/timeline?pod=u1", 200, `"pod":{"namespace":"default"`},
		{"GET", "/v1/gone", 200, `"name":"old"`},
		{"GET", "/v1/deadletters", 200, `"type":"pod.Wake"`},
	} {
		request := check.Value(http.NewRequestWithContext(t.Context(), q.method, "http://localhost:80"+q.path, nil))(t)
		response := check.Value(client.Do(request))(t)
		body, err := io.ReadAll(response.Body)
		if closeErr := response.Body.Close(); err != nil || closeErr != nil {
			t.Error(err, closeErr)
		}
		if response.StatusCode != q.status || !strings.Contains(string(body), q.want) {
			t.Errorf("%s %s: %s %s", q.method, q.path, response.Status, body)
		}
	}
}

func TestSocket(t *testing.T) {
	c := sampleConfig(t)
	// One that an agent left behind when it was killed.
	stale := check.Value(net.ListenUnix("unix", &net.UnixAddr{Name: c.Socket, Net: "unix"}))(t)
	stale.SetUnlinkOnClose(false)
	check.Fatal(t, stale.Close())
	s := check.Value(Listen(c))(t)
	stop := serve(t, s)
	info, err := os.Lstat(c.Socket)
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	check.Says(t, check.Err(Listen(c)), "another agent answers there", "a second one")
	if _, err := (Client{Socket: c.Socket}).Pods(t.Context()); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(filepath.Dir(c.Socket))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v %v", entries, err)
	}
	stop()
	if _, err := os.Lstat(c.Socket); !os.IsNotExist(err) {
		t.Error("the socket is still there")
	}

	check.Fatal(t, os.WriteFile(c.Socket, nil, 0o600))
	check.Says(t, check.Err(Listen(c)), "is not a socket", "a file in its place")
	c.Socket = "/" + strings.Repeat("long/", 20) + SocketName
	if _, err := Listen(c); err == nil || !strings.Contains(err.Error(), "112 bytes") || !strings.Contains(err.Error(), "choose a shorter --root-dir") {
		t.Errorf("a long path: %v", err)
	}
}

func TestNobodyAnswers(t *testing.T) {
	dir := t.TempDir()
	for name, socket := range map[string]string{
		"not there": SocketIn(dir), "no directory": SocketIn(filepath.Join(dir, "none")),
	} {
		_, err := Client{Socket: socket}.Tree(t.Context())
		gone, ok := errors.AsType[*GoneError](err)
		if want := "no troupe node answers at " + socket + ": is it running with --root-dir " + filepath.Dir(socket) + "?"; !ok || !strings.HasPrefix(gone.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (Client{Socket: "/" + strings.Repeat("x", 200)}).Tree(t.Context()); err == nil || !strings.Contains(err.Error(), "shorter --root-dir") {
		t.Error(err)
	}
}
