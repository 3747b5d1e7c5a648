package node

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/manifesturl"
	"github.com/troupe-dev/troupe/supervisor/host/manifestdir"
)

// settle is how long a manifest directory must be quiet before it is read.
const settle = 5 * time.Millisecond

// manifests implements port.Manifests on this machine.
type manifests struct {
	path   string
	period time.Duration
	url    *manifesturl.Fetcher
	log    zerolog.Logger

	mu      sync.Mutex
	version manifesturl.Version
}

// Read implements port.Manifests.
func (m *manifests) Read(ctx context.Context, done func([]port.ManifestFile, error)) {
	go func() {
		files, err := manifestdir.Read(ctx, m.path)
		out := make([]port.ManifestFile, len(files))
		for i, f := range files {
			out[i] = port.ManifestFile{Name: f.Name, Data: f.Data, Err: f.Err}
		}
		done(out, err)
	}()
}

// Watch implements port.Manifests.
func (m *manifests) Watch(ctx context.Context, changed func(), done func(error)) {
	go func() {
		done(manifestdir.Watch(ctx, manifestdir.Options{
			Path: m.path, Period: m.period, Settle: settle, Notify: changed,
			Warn: func(err error) {
				m.log.Warn().Str("path", m.path).Str("error",
					err.Error()).Msg("cannot watch the manifest directory; reading it periodically instead")
			},
		}))
	}()
}

// Fetch implements port.Manifests.
func (m *manifests) Fetch(ctx context.Context, fresh bool, done func([]byte, bool, error)) {
	go func() {
		m.mu.Lock()
		since := m.version
		m.mu.Unlock()
		if fresh {
			since = manifesturl.Version{}
		}
		r, err := m.url.Fetch(ctx, since)
		if err == nil {
			m.mu.Lock()
			m.version = r.Version
			m.mu.Unlock()
		}
		done(r.Data, r.NotModified, err)
	}()
}

// checkpointsDir is where the agent keeps what outlives it, and where archives of
// containers go, below the root directory.
const checkpointsDir = "checkpoints"

// checkpoints implements port.Checkpoints with files of one directory.
type checkpoints struct {
	dir string
	// last is closed when the newest write has ended. Writes run in the order of the requests,
	// and a disk may hang for longer than an actor waits. mu guards last.
	mu   sync.Mutex
	last chan struct{}
}

// Load implements port.Checkpoints.
func (c *checkpoints) Load(_ context.Context, name string, done func([]byte, error)) {
	go func() {
		c.tidy(name)
		data, err := os.ReadFile(filepath.Join(c.dir, name+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			data, err = nil, nil
		}
		done(data, err)
	}()
}

// tidy removes what a killed agent has not finished writing.
func (c *checkpoints) tidy(name string) {
	left, err := filepath.Glob(filepath.Join(c.dir, name+".*.new"))
	if err != nil {
		return // a directory with signs of patterns in its name
	}
	for _, file := range left {
		_ = os.Remove(file) // it only takes room
	}
}

// Save implements port.Checkpoints: written beside it, flushed, then renamed.
func (c *checkpoints) Save(_ context.Context, name string, data []byte, done func(error)) {
	c.mu.Lock()
	turn := c.last
	mine := make(chan struct{})
	c.last = mine
	c.mu.Unlock()
	go func() {
		if turn != nil {
			<-turn
		}
		defer close(mine)
		done(c.write(name, data))
	}()
}

func (c *checkpoints) write(name string, data []byte) (err error) {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(c.dir, name+".*.new")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(c.dir, name+".json"))
}
