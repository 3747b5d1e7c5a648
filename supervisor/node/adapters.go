package node

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/actors/sources"
	"github.com/troupe-dev/troupe/apiclient/manifesturl"
	"github.com/troupe-dev/troupe/supervisor/host/disk/manifestdir"
)

// settle is how long a manifest directory must be quiet before it is read.
const settle = 5 * time.Millisecond

// manifests implements port.Manifests on this machine.
type manifests struct {
	path   string
	period time.Duration
	url    *manifesturl.Fetcher
	noURL  error // why there is no url although one is configured
	log    zerolog.Logger

	mu      sync.Mutex
	version manifesturl.Version
}

// manifestTimeout is how long the server of a manifest URL may take.
const manifestTimeout = 30 * time.Second

// newManifests are those that the configuration names. It has warned of a URL that nothing can be fetched from.
func newManifests(c sources.Settings, header map[string][]string, log zerolog.Logger) *manifests {
	m := &manifests{path: c.Path, period: c.PathPeriod, log: log}
	if c.URL != "" {
		m.url, m.noURL = manifesturl.New(manifesturl.Config{URL: c.URL, Header: header, Timeout: manifestTimeout})
	}
	return m
}

// Read implements port.Manifests.
func (m *manifests) Read(ctx context.Context, done func([]port.ManifestFile, error)) {
	rescue.Ask(ctx, func() ([]port.ManifestFile, error) {
		files, err := manifestdir.Read(ctx, m.path)
		out := make([]port.ManifestFile, len(files))
		for i, f := range files {
			out[i] = port.ManifestFile{Name: f.Name, Data: f.Data, Err: f.Err}
		}
		return out, err
	}, port.Panicked("Read", m.path), done)
}

// Watch implements port.Manifests.
func (m *manifests) Watch(ctx context.Context, changed func(again []string), done func(error)) {
	rescue.Do(ctx, func() error {
		return manifestdir.Watch(ctx, manifestdir.Options{
			Path: m.path, Period: m.period, Settle: settle, Notify: changed,
			Warn: func(err error) {
				m.log.Warn().Str("path", m.path).Str("error",
					err.Error()).Msg("cannot watch the manifest directory; reading it periodically instead")
			},
		})
	}, port.Panicked("Watch", m.path), done)
}

// Fetch implements port.Manifests.
func (m *manifests) Fetch(ctx context.Context, fresh bool, done func([]byte, bool, error)) {
	rescue.Ask(ctx, func() (r manifesturl.Result, err error) {
		m.mu.Lock()
		since := m.version
		m.mu.Unlock()
		if fresh {
			since = manifesturl.Version{}
		}
		if m.noURL != nil {
			return r, m.noURL
		}
		if r, err = m.url.Fetch(ctx, since); err == nil {
			m.mu.Lock()
			m.version = r.Version
			m.mu.Unlock()
		}
		return r, err
	}, port.Panicked("Fetch", "the manifest URL"), func(r manifesturl.Result, err error) {
		done(r.Data, r.NotModified, err)
	})
}

// checkpointsDir is where the agent keeps what outlives it, and where archives of
// containers go, below the root directory.
const checkpointsDir = "checkpoints"
