// Package agentdir is a directory that the agent owns, held open. No path leads out of it
// through a link, and removal never descends into a mount: each directory is opened
// such that the kernel itself refuses to cross into another file system or bind mount.
package agentdir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Mode is that of the directories of pods, as the kubelet has them.
const Mode = 0o750

// Dir is a directory of the agent.
type Dir struct {
	Root *os.Root
	// Path is as configured, Real with links resolved, as mountinfo has it.
	Path, Real string
}

// Open opens the directory, and makes it if it does not exist.
func Open(path string, mode os.FileMode) (*Dir, error) {
	if err := os.MkdirAll(path, mode); err != nil {
		return nil, err
	}
	actual, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(actual)
	if err != nil {
		return nil, err
	}
	return &Dir{Root: root, Path: filepath.Clean(path), Real: actual}, nil
}

// Names are the names of what is in dir, below it, and passes is, sorted; none if it is not there. A nil is passes all.
func (a *Dir) Names(dir string, is func(fs.DirEntry) bool) (names []string, err error) {
	f, err := a.Root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	entries, err := f.ReadDir(-1)
	for _, e := range entries {
		if is == nil || is(e) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, err
}

// Remove removes name in dir, both below it.
func (a *Dir) Remove(ctx context.Context, dir, name string) error {
	return a.remove(dir, name, &removal{ctx: ctx})
}

// RemoveDirs removes name in dir, both below it, as far as it is directories: places where something was mounted.
// Files are removed only so deep in it, 0 for nowhere. Others are an error: they were written when nothing was mounted.
func (a *Dir) RemoveDirs(ctx context.Context, dir, name string, files int) error {
	return a.remove(dir, name, &removal{ctx: ctx, dirs: true, files: files})
}

func (a *Dir) remove(dir, name string, r *removal) error {
	parent, err := a.Root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close() //nolint:errcheck // nothing was written
	r.remove(parent, name, 0)
	return r.first
}

// OwnerOf is the owner of a file.
func OwnerOf(info fs.FileInfo) (uid, gid int) {
	s := info.Sys().(*syscall.Stat_t)
	return int(s.Uid), int(s.Gid)
}
