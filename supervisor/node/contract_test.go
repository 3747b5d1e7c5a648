package node

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/apiclient/manifesturl"
	"github.com/troupe-dev/troupe/supervisor/host/disk/checkpoints"
	must "github.com/troupe-dev/troupe/tests/check" // check is a function of this package
	"github.com/troupe-dev/troupe/tests/contract"
)

func TestCheckpointsContract(t *testing.T) {
	contract.Checkpoints(t, func(t *testing.T) contract.CheckpointsSubject {
		return contract.CheckpointsSubject{Passing: contract.Really(), Checkpoints: checkpoints.New(filepath.Join(t.TempDir(), "made"))}
	})
}

func TestManifestsContract(t *testing.T) {
	contract.Manifests(t, func(t *testing.T) contract.ManifestsSubject {
		dir := t.TempDir()
		var body atomic.Pointer[string] // nil for an error
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			text := body.Load()
			if text == nil {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			_, _ = io.WriteString(w, *text) // the client may have gone
		}))
		t.Cleanup(server.Close)
		fetcher := must.Value(manifesturl.New(manifesturl.Config{URL: server.URL, Timeout: time.Minute}))(t)
		return contract.ManifestsSubject{
			Passing: contract.Really(),
			// A period that long shows that the kernel's hints arrive.
			Manifests: &manifests{path: dir, period: time.Hour, url: fetcher, log: zerolog.Nop()},
			Write: func(name, data string) {
				must.Error(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600))
			},
			Remove: func(name string) {
				must.Error(t, os.Remove(filepath.Join(dir, name)))
			},
			Answer: func(text string) { body.Store(&text) },
			Fail:   func() { body.Store(nil) },
		}
	})
}
