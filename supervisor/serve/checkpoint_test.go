package serve_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/serve"
)

// checkpointer notes what it is asked for.
type checkpointer struct {
	asked []port.CheckpointContainer
	err   error
}

func (c *checkpointer) CheckpointContainer(_ context.Context, r port.CheckpointContainer, done func(error)) {
	c.asked = append(c.asked, r)
	done(c.err)
}

func TestCheckpoint(t *testing.T) {
	pod := onePod()
	find := func(_ context.Context, namespace, name string) ([]*v1.Pod, error) {
		if namespace == pod.Namespace && name == pod.Name {
			return []*v1.Pod{pod}, nil
		}
		return nil, nil
	}
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	dir := filepath.Join(t.TempDir(), "checkpoints")
	file := filepath.Join(dir, "checkpoint-web_ns-runs-2030-01-02T03:04:05Z.tar")
	for _, tt := range []struct {
		name, path string
		err        error
		status     int
		says       string
		asked      []port.CheckpointContainer
	}{
		{"made", "ns/web/runs", nil, 200, `{"items":["` + file + `"]}`, []port.CheckpointContainer{{ContainerID: "runs", Location: file}}},
		{"the last timeout", "ns/web/runs?timeout=1&timeout=90", nil, 200, file,
			[]port.CheckpointContainer{{ContainerID: "runs", Location: file, Timeout: 90 * time.Second}}},
		{"a wrong timeout", "ns/web/runs?timeout=soon", nil, 400, `timeout "soon": want whole seconds`, nil},
		{"a negative timeout", "ns/web/runs?timeout=-1", nil, 400, "0 or more", nil},
		{"no such pod", "ns/other/runs", nil, 404, `pod "other" does not exist`, nil},
		{"no such container", "ns/web/other", nil, 404, `container "other" does not exist in pod "web"`, nil},
		{"one that has ended", "ns/web/ended", nil, 500, "checkpointing of ns/web/ended failed (the container is not running)", nil},
		{"one that was never made", "ns/web/first", nil, 500, "the container is not running", nil},
		{"a runtime that can't", "ns/web/runs", &port.Error{Kind: port.Unsupported, Verb: "CheckpointContainer", Object: "runs", Detail: "rpc error: code = Unimplemented desc = unknown method"},
			500, "checkpointing of ns/web/runs failed (rpc error: code = Unimplemented desc = unknown method)", []port.CheckpointContainer{{ContainerID: "runs", Location: file}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &checkpointer{err: tt.err}
			route := serve.CheckpointRoute(serve.CheckpointConfig{Find: find, Runtime: c, Dir: dir, Now: func() time.Time { return at }})
			mux := http.NewServeMux()
			mux.Handle(route.Path, route.Handler)
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/checkpoint/"+tt.path, nil))
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.says) {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, tt.status, tt.says)
			}
			if _, err := os.Stat(dir); len(tt.asked) > 0 && err != nil {
				t.Error(err)
			}
			if len(c.asked) != len(tt.asked) || len(tt.asked) > 0 && c.asked[0] != tt.asked[0] {
				t.Errorf("asked %v, want %v", c.asked, tt.asked)
			}
		})
	}
}
