// Package checkpoints stores checkpoints as files of one directory:
//
//	NAME.json            the checkpoint
//	.NAME.json           an unfinished write, which the next one replaces
//	NAME.json.damaged    the last one that was set aside
package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/supervisor/host/disk/durable"
	"github.com/troupe-dev/troupe/supervisor/host/disk/regularfile"
)

// maxSize bounds what is read into memory, in bytes. The largest checkpoint has all static pods.
const maxSize = 64 << 20

const fileMode = 0o600

// Store implements port.Checkpoints.
type Store struct {
	dir string
	// suffix follows the name of a checkpoint in that of its file.
	suffix     string
	durability durable.Durability
	// A read does not wait for a write that hangs: there is the old file.
	reads, writes lines
}

var _ port.Checkpoints = (*Store)(nil)

// New makes a store in a directory, which need not exist.
func New(dir string) *Store { return &Store{dir: dir, suffix: ".json", durability: durable.Whole} }

// NewStates makes a store of the state files that a kubelet has in its root directory: their names are those of the
// files. Drivers are called after one was written (dra_manager_state), so it must outlive a loss of power.
func NewStates(root string) *Store { return &Store{dir: root, durability: durable.Kept} }

func (c *Store) path(name string) string { return filepath.Join(c.dir, name+c.suffix) }

// Read reads one at once, for the start of the agent. Without a file, there is no data.
func (c *Store) Read(name string) ([]byte, error) { return read(c.path(name)) }

// Load implements port.Checkpoints.
func (c *Store) Load(ctx context.Context, name string, done func([]byte, error)) {
	queue(ctx, &c.reads, "LoadCheckpoint", name, func() ([]byte, error) { return read(c.path(name)) }, done)
}

// read reads a file. Without one there is no data.
func read(path string) ([]byte, error) {
	data, err := regularfile.Read(path, maxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// Save implements port.Checkpoints.
func (c *Store) Save(ctx context.Context, name string, data []byte, done func(error)) {
	queue(ctx, &c.writes, "SaveCheckpoint", name, func() (struct{}, error) { return struct{}{}, c.Write(name, data) },
		func(_ struct{}, err error) { done(err) })
}

// SetAside implements port.Checkpoints.
func (c *Store) SetAside(ctx context.Context, name string, done func(string, error)) {
	queue(ctx, &c.writes, "SetAsideCheckpoint", name, func() (string, error) { return c.setAside(name) }, done)
}

// queue is rescue.Ask for one call of a checkpoint, in its line.
func queue[T any](
	ctx context.Context, l *lines, verb, name string, work func() (T, error), done func(T, error),
) {
	l.add(ctx, name, call{
		verb: verb,
		do:   func() { rescue.Answer(ctx, work, port.Panicked(verb, name), done) },
		replaced: func() {
			var none T
			done(none, &port.Error{
				Kind: port.Canceled, Verb: verb, Object: name, Detail: "the disk hangs, and the same is asked for again",
			})
		},
	})
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

// Write writes one at once, for the start of the agent.
func (c *Store) Write(name string, data []byte) error {
	if len(data) > maxSize {
		return fmt.Errorf("%s would have %d bytes, more than the %d that a checkpoint may have", c.path(name), len(data),
			maxSize)
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	return durable.WriteAt(c.path(name), data, fileMode, c.durability)
}
