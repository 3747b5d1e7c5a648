// Package checkpoints stores checkpoints as files of one directory:
//
//	NAME.json            the checkpoint
//	NAME.*.new           an unfinished write
//	NAME.json.damaged    the last one that was set aside
package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/regular"
)

// maxSize bounds what is read into memory, in bytes. The largest checkpoint has all static pods.
const maxSize = 64 << 20

// Store implements port.Checkpoints.
type Store struct {
	dir string
	// suffix follows the name of a checkpoint in that of its file.
	suffix string
	// flush brings a file to the disk.
	flush func(*os.File) error
	// last is closed when the newest write has ended. Writes run in the order of the requests,
	// and a disk may hang for longer than an actor waits. mu guards last.
	mu   sync.Mutex
	last chan struct{}
}

var _ port.Checkpoints = (*Store)(nil)

// New makes a store in a directory, which need not exist.
func New(dir string) *Store { return &Store{dir: dir, suffix: ".json", flush: (*os.File).Sync} }

// NewStates makes a store of the state files that a kubelet has in its root directory: their names are those of the
// files.
func NewStates(root string) *Store { return &Store{dir: root, flush: (*os.File).Sync} }

func (c *Store) path(name string) string { return filepath.Join(c.dir, name+c.suffix) }

// Read reads one at once, for the start of the agent. Without a file, there is no data.
func (c *Store) Read(name string) ([]byte, error) { return read(c.path(name)) }

// Load implements port.Checkpoints.
func (c *Store) Load(_ context.Context, name string, done func([]byte, error)) {
	go func() {
		c.tidy(name)
		done(read(c.path(name)))
	}()
}

// read reads a file. Without one there is no data.
func read(path string) ([]byte, error) {
	data, err := regular.Read(path, maxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// tidy removes what a killed agent has not finished writing.
func (c *Store) tidy(name string) {
	left, err := filepath.Glob(filepath.Join(c.dir, name+".*.new"))
	if err != nil {
		return // a directory with signs of patterns in its name
	}
	for _, file := range left {
		_ = os.Remove(file) // it only takes room
	}
}

// Save implements port.Checkpoints: written beside it, flushed, then renamed.
func (c *Store) Save(_ context.Context, name string, data []byte, done func(error)) {
	c.inOrder(func() { done(c.write(name, data)) })
}

// SetAside implements port.Checkpoints.
func (c *Store) SetAside(_ context.Context, name string, done func(string, error)) {
	c.inOrder(func() { done(c.setAside(name)) })
}

// inOrder calls f on another goroutine, after all earlier ones.
func (c *Store) inOrder(f func()) {
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
		f()
	}()
}

func (c *Store) setAside(name string) (string, error) {
	from, to := c.path(name), c.path(name)+".damaged"
	err := os.Rename(from, to)
	if err != nil && os.Remove(to) == nil { // a file and a directory don't replace each other
		err = os.Rename(from, to)
	}
	if err != nil {
		return "", err
	}
	return to, nil
}

func (c *Store) write(name string, data []byte) (err error) {
	if len(data) > maxSize {
		return fmt.Errorf("%s would have %d bytes, more than the %d that a checkpoint may have", c.path(name), len(data),
			maxSize)
	}
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
		err = c.flush(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), c.path(name))
}
