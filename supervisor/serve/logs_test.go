package serve_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/serve"
	"github.com/troupe-dev/troupe/supervisor/serve/crilog"
	"github.com/troupe-dev/troupe/tests/check"
)

// logsIn is a runtime whose containers log to files of a directory, by ID.
type logsIn struct {
	port.Runtime
	dir string
}

func (l logsIn) ContainerStatus(_ context.Context, id string, done func(observed.Container, error)) {
	path := filepath.Join(l.dir, id, "0.log")
	if _, err := os.Stat(path); err != nil {
		done(observed.Container{}, &port.Error{Kind: port.NotFound})
		return
	}
	done(observed.Container{ID: id, LogPath: path}, nil)
}

func status(name string, now, last v1.ContainerState) v1.ContainerStatus {
	s := v1.ContainerStatus{Name: name, State: now, LastTerminationState: last}
	if now.Running != nil {
		s.ContainerID = "containerd://" + name
	}
	return s
}

func ended(id string) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: id}}
}

func waits(reason string) v1.ContainerState {
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}
}

var (
	runs = v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	none = v1.ContainerState{}
)

// onePod has containers in all states.
func onePod() *v1.Pod {
	p := &v1.Pod{}
	p.Namespace, p.Name, p.UID = "ns", "web", "u-1"
	for _, c := range []v1.ContainerStatus{
		status("runs", runs, none), status("restarted", runs, ended("containerd://before")),
		status("ended", ended("containerd://ended"), none), status("gone", ended("containerd://gone"), none),
		status("crashes", waits("CrashLoopBackOff"), ended("containerd://before")),
		status("new", waits("ContainerCreating"), none), status("pull", waits("ErrImagePull"), none),
		status("pulls", waits("ImagePullBackOff"), none), status("nothing", none, none), status("lost", ended(""), none),
	} {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: c.Name})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, c)
	}
	p.Spec.InitContainers = []v1.Container{{Name: "first"}}
	hooked := status("hooked", waits("ContainerCreating"), none)
	hooked.ContainerID = "containerd://runs"
	p.Spec.Containers = append(p.Spec.Containers,
		v1.Container{Name: "hooked", Lifecycle: &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}}})
	p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, hooked)
	return p
}

func logsRoute(t testing.TB, dir string, find serve.Find) serve.Route {
	t.Helper()
	for id, text := range map[string]string{
		"runs": "2026-11-21T10:00:00Z stdout F one\n2026-11-21T10:00:01Z stderr F two\n", "restarted": "", "ended": "2026-11-21T10:00:00Z stdout F end\n",
		"before": "2026-11-21T09:00:00Z stdout F before\n",
	} {
		check.Fatal(t, os.MkdirAll(filepath.Join(dir, id), 0o700))
		check.Fatal(t, os.WriteFile(filepath.Join(dir, id, "0.log"), []byte(text), 0o600))
	}
	return serve.ContainerLogsRoute(serve.LogsConfig{Find: find, Runtime: logsIn{dir: dir}, SplitStreams: true, Watcher: &crilog.Watcher{}})
}

func only(p *v1.Pod) serve.Find {
	return func(_ context.Context, namespace, name string) ([]*v1.Pod, error) {
		if namespace == "broken" {
			return nil, errors.New("the pods actor does not answer")
		}
		if namespace != p.Namespace || name != p.Name {
			return nil, nil
		}
		return []*v1.Pod{p}, nil
	}
}

// FuzzContainerLogs: whatever a client writes, it gets the log, or is told that it
// is wrong, and no more than it asks for.
func FuzzContainerLogs(f *testing.F) {
	for _, q := range []string{
		"follow=true&tailLines=1", "previous&timestamps=1", "limitBytes=3&limitBytes=x", "sinceTime=2026-11-21T10:00:01Z", "sinceSeconds=9223372036854775807",
		"tail=all&tailLines=9223372036854775807", "stream=Stderr", "limitBytes=%zz;a", "tailLines=-0&limitBytes=+1", "sinceTime=0000-01-01T00:00:00Z",
	} {
		f.Add(q)
	}
	route := logsRoute(f, f.TempDir(), only(onePod()))
	mux := http.NewServeMux()
	mux.Handle(route.Path, route.Handler)
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequest(http.MethodGet, "/containerLogs/ns/web/ended", nil)
		r.URL.RawQuery = query
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		switch w.Code {
		case http.StatusOK:
			if limit, err := strconv.Atoi(r.URL.Query().Get("limitBytes")); err == nil && w.Body.Len() > limit {
				t.Errorf("%q: %d bytes", query, w.Body.Len())
			}
			if !strings.Contains("2026-11-21T10:00:00.000000000Z end\n", w.Body.String()) {
				t.Errorf("%q: %q", query, w.Body)
			}
		case http.StatusBadRequest, http.StatusUnprocessableEntity:
			if w.Body.Len() == 0 {
				t.Errorf("%q: %d without a word", query, w.Code)
			}
		default:
			t.Errorf("%q: %d %s", query, w.Code, w.Body)
		}
	})
}

// TestLogThatBreaks: a client must not take the end of what could be read for the end of the log.
func TestLogThatBreaks(t *testing.T) {
	dir := t.TempDir()
	pod := onePod()
	pod.Status.ContainerStatuses[2].State = ended("containerd://mem") // a link may lead to what has the ID
	route := logsRoute(t, dir, only(pod))
	log := filepath.Join(dir, "mem", "0.log")
	// A regular file of which no byte can be read: nothing is at the first address of a process.
	check.Fatal(t, errors.Join(os.Mkdir(filepath.Dir(log), 0o700), os.Symlink("/proc/self/mem", log)))
	mux := http.NewServeMux()
	mux.Handle(route.Path, route.Handler)
	s := httptest.NewServer(mux)
	defer s.Close()
	answer := check.Value(s.Client().Get(s.URL + "/containerLogs/ns/web/ended"))(t)
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err == nil {
		t.Errorf("answered %s %q, as if that were all", answer.Status, body)
	}
}

func TestContainerLogs(t *testing.T) {
	route := logsRoute(t, t.TempDir(), only(onePod()))
	access := &byName{}
	for _, tt := range []struct {
		path   string
		status int
		body   string
	}{
		{"ns/web/runs", 200, "one\ntwo\n"},
		{"ns/web/runs?tailLines=1", 200, "two\n"},
		{"ns/web/runs?tail=1", 200, "two\n"},
		{"ns/web/runs?tail=all", 200, "one\ntwo\n"},
		{"ns/web/runs?limitBytes=5", 200, "one\nt"},
		{"ns/web/runs?timestamps=true&tailLines=1", 200, "2026-11-21T10:00:01.000000000Z two\n"},
		{"ns/web/runs?sinceTime=2026-11-21T10:00:01Z", 200, "two\n"},
		{"ns/web/runs?sinceSeconds=1000000000", 200, "one\ntwo\n"},
		{"ns/web/runs?stream=Stdout", 200, "one\n"},
		{"ns/web/runs?stream=Stderr&follow=false", 200, "two\n"},
		{"ns/web/runs?stream=All&insecureSkipTLSVerifyBackend=true", 200, "one\ntwo\n"},
		{"ns/web/restarted", 200, ""},
		{"ns/web/restarted?previous=true", 200, "before\n"},
		{"ns/web/ended", 200, "end\n"},
		{"ns/web/ended?follow=true", 200, "end\n"},
		{"ns/web/crashes", 200, "before\n"},
		{"ns/web/hooked", 200, "one\ntwo\n"},
		{"ns/web/crashes?previous", 200, "before\n"},
		{"ns/web/runs?previous=true", 400, `previous terminated container "runs" in pod "web" not found`},
		{"ns/web/new", 400, `container "new" in pod "web" is waiting to start: ContainerCreating`},
		{"ns/web/pull", 400, `container "pull" in pod "web" is waiting to start: image can't be pulled`},
		{"ns/web/pulls", 400, `container "pulls" in pod "web" is waiting to start: trying and failing to pull image`},
		{"ns/web/nothing", 400, `container "nothing" in pod "web" is waiting to start: no logs yet`},
		{"ns/web/lost", 400, `container "lost" in pod "web" is terminated`},
		{"ns/web/gone", 400, "unable to retrieve container logs for containerd://gone"},
		{"ns/web/first", 400, `container "first" in pod "web" is not available`},
		{"ns/web/other", 404, `container "other" not found in pod "web"`},
		{"ns/web/..%2f..%2fetc", 404, `container "../../etc" not found in pod "web"`},
		{"ns/db/runs", 404, `pod "db" does not exist`},
		{"broken/db/runs", 500, "the pods actor does not answer"},
		{"ns/web/runs?tailLines=many", 400, `{"message": "Unable to decode query."}`},
		{"ns/web/runs?sinceTime=yesterday", 400, `{"message": "Unable to decode query."}`},
		{"ns/web/runs?tailLines=-1", 422, `{"message": "Invalid request."}`},
		{"ns/web/runs?limitBytes=0", 422, `{"message": "Invalid request."}`},
		{"ns/web/runs?sinceSeconds=1&sinceTime=2026-11-21T10:00:01Z", 422, `{"message": "Invalid request."}`},
		{"ns/web/runs?stream=Stdin", 422, `{"message": "Invalid request."}`},
		{"ns/web/runs?stream=Stdout&tailLines=1", 422, `{"message": "Invalid request."}`},
	} {
		t.Run(tt.path, func(t *testing.T) {
			w := httptest.NewRecorder()
			r := httptest.NewRequest("GET", "/containerLogs/"+tt.path, nil)
			r.Header.Set("User", "get/proxy")
			server(t, []serve.Route{route}, access).ServeHTTP(w, r)
			body := w.Body.String()
			if tt.status != 200 {
				body = strings.TrimSpace(body)
			}
			if w.Code != tt.status || body != tt.body {
				t.Errorf("%d %q, want %d %q", w.Code, body, tt.status, tt.body)
			}
		})
	}
}

func TestStreamsNeedTheirGate(t *testing.T) {
	route := serve.ContainerLogsRoute(serve.LogsConfig{Find: only(onePod()), Runtime: logsIn{dir: t.TempDir()}})
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/containerLogs/ns/web/runs?stream=Stdout", nil)
	r.Header.Set("User", "get/proxy")
	server(t, []serve.Route{route}, &byName{}).ServeHTTP(w, r)
	if w.Code != 400 || !strings.Contains(w.Body.String(), "PodLogsQuerySplitStreams") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestClientGoesAway: a client that leaves while it follows leaves nothing behind.
func TestClientGoesAway(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	route := logsRoute(t, t.TempDir(), only(onePod()))
	access := &byName{}
	s := server(t, []serve.Route{route}, access)
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- s.Serve(ctx) }()
	transport := &http.Transport{}
	for range 20 {
		r, err := http.NewRequestWithContext(t.Context(), "GET", fmt.Sprintf("http://%s/containerLogs/ns/web/runs?follow=true", s.Address()), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("User", "get/proxy")
		answer := check.Value((&http.Client{Transport: transport}).Do(r))(t)
		check.Value(io.ReadFull(answer.Body, make([]byte, len("one\ntwo\n"))))(t)
		answer.Body.Close()
	}
	transport.CloseIdleConnections()
	stop()
	check.Fatal(t, <-over)
}

// TestSystemLogs: nothing leads out of the directory.
func TestSystemLogs(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{filepath.Join(outside, "secret"): "secret", filepath.Join(dir, "syslog"): "a line\n"} {
		check.Fatal(t, os.WriteFile(path, []byte(text), 0o600))
	}
	check.Fatal(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "link")))
	check.Fatal(t, os.Symlink(outside, filepath.Join(dir, "dir")))
	check.Fatal(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	plain := map[string]int{
		"/logs/syslog": 200, "/logs/": 200, "/logs": 301, "/logs/none": 404, "/logs/link": 403, "/logs/dir/secret": 403, "/logs/pipe": 404,
		"/logs/..%2f" + filepath.Base(outside) + "%2fsecret": 404, "/logs/%2e%2e/x": 404, "/logs//etc/passwd": 403,
	}
	// With queries on, paths are answered as before.
	for path, want := range plain {
		get(t, dir, true, path, want)
		get(t, dir, false, path, want)
	}
	for path, want := range map[string]int{
		"/logs/?query=/syslog": 200, "/logs?query=/syslog": 301, "/logs/?query=": 400, "/logs/?query=/link": 406,
		"/logs/?query=/dir/secret": 406, "/logs/?query=/pipe": 406, "/logs/?query=/../" + filepath.Base(outside) + "/secret": 406,
		"/logs/?query=//etc/passwd": 406, "/logs/?query=/etc/passwd": 406, "/logs/syslog?query=/syslog": 406,
	} {
		get(t, dir, true, path, want)
	}
	get(t, dir, false, "/logs/?query=/syslog", 200) // a list of the directory: the query is off
	if _, err := serve.SystemLogsRoutes(filepath.Join(dir, "none"), false); err == nil {
		t.Error("a directory that is not there is no error")
	}
}

// TestLinkedLogs: a link to another file of the directory is followed, also if its path is absolute, as those of containers
// are. Whatever is on the way, nothing leads out.
func TestLinkedLogs(t *testing.T) {
	disk, dir := t.TempDir(), filepath.Join(t.TempDir(), "log")
	check.Fatal(t, os.Symlink(disk, dir)) // as /var/log may be on another disk
	check.Fatal(t, errors.Join(os.MkdirAll(filepath.Join(disk, "pods", "a"), 0o700), os.Mkdir(filepath.Join(disk, "containers"), 0o700),
		os.WriteFile(filepath.Join(disk, "pods", "a", "0.log"), []byte("a line\n"), 0o600),
		os.WriteFile(filepath.Join(filepath.Dir(disk), "secret"), []byte("secret"), 0o600)))
	for name, to := range map[string]string{
		"a.log": dir + "/pods/a/0.log", "b.log": disk + "/pods/a/0.log", "c.log": "../pods/a/0.log", "d.log": dir + "/containers/a.log",
		"e.log": dir + "/pods/b/0.log", "f.log": dir + "/pods/a", "loop": dir + "/containers/loop", "way-out": dir + "/../secret",
		"out": filepath.Dir(disk) + "/secret", "around": dir + "/containers/../../secret", "elsewhere": disk + "x/0.log",
		"gone": dir + "/none", "up": "../../secret", "up-and-down": dir + "/pods/../pods/a/0.log",
	} {
		check.Fatal(t, os.Symlink(to, filepath.Join(disk, "containers", name)))
	}
	check.Fatal(t, os.Symlink(dir+"/pods/a", filepath.Join(disk, "pods", "b")))
	for path, want := range map[string]int{
		"a.log": 200, "b.log": 200, "c.log": 200, "d.log": 200, "e.log": 200, "f.log/0.log": 200, "f.log/": 200, "up-and-down": 200,
		"a.log/x": 403, "loop": 403, "way-out": 403, "out": 403, "around": 403, "elsewhere": 403, "up": 403, "gone": 404, "f.log/none": 404,
	} {
		get(t, dir, false, "/logs/containers/"+path, want)
	}
	get(t, dir, true, "/logs/?query=/containers/a.log", 200)
	get(t, dir, true, "/logs/?query=/containers/out", 406)
}

// get asks for a path below /logs/, and no answer may tell a secret.
func get(t *testing.T, dir string, query bool, path string, want int) {
	t.Helper()
	routes := check.Value(serve.SystemLogsRoutes(dir, query))(t)
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", path, nil)
	r.Header.Set("User", "get/log")
	server(t, routes, &byName{}).ServeHTTP(w, r)
	if strings.Contains(w.Body.String(), "secret\n") || w.Body.String() == "secret" || w.Code != want {
		t.Errorf("query=%v, %s: %d %q, want %d", query, path, w.Code, w.Body, want)
	}
	if _, asked, is := strings.Cut(path, "?"); is && want == http.StatusMovedPermanently && w.Header().Get("Location") != "/logs/?"+asked {
		t.Errorf("%s: redirected to %s", path, w.Header().Get("Location"))
	}
}
