// Package pullrecords is the adapter of port.PullRecords. The files are those of a kubelet:
//
//	<root>/image_manager/pulling/sha256-…          intents
//	<root>/image_manager/pulled/sha256-…           records
//	…/.sha256-…                                    an unfinished write
//	…/damaged-sha256-…                             one that was set aside; a kubelet does not see it
package pullrecords

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/supervisor/host/disk/durable"
	"github.com/troupe-dev/troupe/supervisor/host/disk/regularfile"
)

const (
	top     = "image_manager"
	prefix  = "sha256-"
	damaged = "damaged-"
	// maxFile bounds one file in bytes, maxFiles how many are read.
	maxFile  = 4 << 20
	maxFiles = 50_000
	fileMode = 0o600
)

// Store implements port.PullRecords.
type Store struct {
	root, pulling, pulled string
	// mu is held by what reads or writes: a file that is being written is not removed as one that was left.
	mu sync.Mutex
}

var _ port.PullRecords = (*Store)(nil)

// New makes a store in the root directory of an agent.
func New(root string) *Store {
	dir := filepath.Join(root, top)
	return &Store{root: root, pulling: filepath.Join(dir, "pulling"), pulled: filepath.Join(dir, "pulled")}
}

func (s *Store) dir(intent bool) string {
	if intent {
		return s.pulling
	}
	return s.pulled
}

// Load implements port.PullRecords.
func (s *Store) Load(ctx context.Context, done func(port.PullFiles, error)) {
	var all port.PullFiles
	s.do(ctx, "Load", s.root, func() (err error) {
		if all.Intents, all.AsideIntents, err = s.list(true); err != nil {
			return err
		}
		all.Records, all.Aside, err = s.list(false)
		return err
	}, func(err error) { done(all, err) })
}

// list reads a directory. One that is not there is empty.
func (s *Store) list(intent bool) (files []port.PullFile, aside []string, err error) {
	dir := s.dir(intent)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		_ = os.MkdirAll(dir, 0o700) // as a kubelet, for programs that look into it; without it, a write will say why
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case strings.HasPrefix(name, durable.Temporary(prefix)),
			strings.HasPrefix(name, prefix) && strings.HasSuffix(name, ".tmp"): // of a kubelet
			_ = os.Remove(filepath.Join(dir, name)) // an agent was killed while it wrote it
		case strings.HasPrefix(name, damaged+prefix):
			aside = append(aside, strings.TrimPrefix(name, damaged))
		case !strings.HasPrefix(name, prefix):
		case len(files) >= maxFiles:
			return nil, nil, fmt.Errorf("%s has more than %d files", dir, maxFiles)
		default:
			f := port.PullFile{Intent: intent, Name: name}
			f.Data, f.Err = regularfile.Read(filepath.Join(dir, name), maxFile)
			files = append(files, f)
		}
	}
	return files, aside, nil
}

// do runs f on another goroutine, while no other runs. The caller waits for one before it begins another whose order
// matters.
func (s *Store) do(ctx context.Context, verb, object string, f func() error, done func(error)) {
	rescue.Do(ctx, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return f()
	}, port.Panicked(verb, object), done)
}

// SaveIntent implements port.PullRecords.
func (s *Store) SaveIntent(ctx context.Context, name string, data []byte, done func(error)) {
	s.do(ctx, "SaveIntent", name, func() error { return s.write(true, name, data) }, done)
}

// SavePulled implements port.PullRecords.
func (s *Store) SavePulled(ctx context.Context, name string, data []byte, intent string, done func(error)) {
	s.do(ctx, "SavePulled", name, func() error {
		if name != "" {
			if err := s.write(false, name, data); err != nil {
				return err
			}
		}
		if intent == "" {
			return nil
		}
		return errors.Join(remove(filepath.Join(s.pulling, intent)), remove(filepath.Join(s.pulling, damaged+intent)))
	}, done)
}

// RemovePulled implements port.PullRecords.
func (s *Store) RemovePulled(ctx context.Context, name string, done func(error)) {
	s.do(ctx, "RemovePulled", name, func() error {
		return errors.Join(remove(filepath.Join(s.pulled, name)), remove(filepath.Join(s.pulled, damaged+name)))
	}, done)
}

// SetAside implements port.PullRecords.
func (s *Store) SetAside(ctx context.Context, f port.PullFile, done func(string, error)) {
	from, to := filepath.Join(s.dir(f.Intent), f.Name), filepath.Join(s.dir(f.Intent), damaged+f.Name)
	s.do(ctx, "SetAside", f.Name, func() error {
		err := os.Rename(from, to)
		if err != nil && os.Remove(to) == nil { // a file and a directory don't replace each other
			err = os.Rename(from, to)
		}
		return err
	}, func(err error) { done(to, err) })
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// write replaces a file. An intent must outlive a loss of power: without it, the image that is pulled next would count
// as one that was there before all pods.
func (s *Store) write(intent bool, name string, data []byte) error {
	if err := os.MkdirAll(s.dir(intent), 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(s.root)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing is written through it
	path := filepath.Join(top, filepath.Base(s.dir(intent)), name)
	return durable.Write(root, path, data, fileMode, durable.Kept)
}
