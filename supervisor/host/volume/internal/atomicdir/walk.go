package atomicdir

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"

	"github.com/troupe-dev/troupe/actors/decide/volumefiles"
)

// same reports whether a version holds just what c says.
func (f *files) same(version string, c *volumefiles.Content) bool {
	want := make(map[string]*volumefiles.File, len(c.Files))
	for i := range c.Files {
		want[c.Files[i].Path] = &c.Files[i]
	}
	if !owned(f.dir, version, dirMode(c), nil, c.Group) {
		return false
	}
	seen := 0
	err := walk(f.dir, version, "", func(in *os.Root, at string, e fs.DirEntry) error {
		if e == nil { // nothing is in a directory
			if at != "" {
				return errDiffers
			}
			return nil
		}
		name := e.Name()
		if e.IsDir() {
			if !owned(in, name, dirMode(c), nil, c.Group) {
				return errDiffers
			}
			return nil
		}
		w := want[path.Join(at, name)]
		if w == nil || !e.Type().IsRegular() || !owned(in, name, fs.FileMode(w.Mode), w.User, c.Group) {
			return errDiffers
		}
		data, err := in.ReadFile(name)
		if err != nil || !bytes.Equal(data, w.Data) {
			return errDiffers
		}
		seen++
		return nil
	})
	return err == nil && seen == len(want)
}

// walk visits all that is below in/name: by its name in the directory that has it, as a path may have two thousand
// elements. at is that directory, relative to where the walk began. Of an empty one nil is visited.
func walk(in *os.Root, name, at string, visit func(in *os.Root, at string, e fs.DirEntry) error) error {
	dir, err := in.OpenRoot(name)
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // nothing was written
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return visit(dir, at, nil)
	}
	for _, e := range entries {
		if err := visit(dir, at, e); err != nil {
			return err
		}
		if !e.IsDir() {
			continue
		}
		if err := walk(dir, e.Name(), path.Join(at, e.Name()), visit); err != nil {
			return err
		}
	}
	return nil
}

var errDiffers = errors.New("differs")

// bytes is how much the files of a version take.
func (f *files) bytes(version string) (sum int64) {
	if version == "" {
		return 0
	}
	// What can't be read gives nothing back.
	_ = walk(f.dir, version, "", func(in *os.Root, _ string, e fs.DirEntry) error {
		if e == nil {
			return nil
		}
		sum += volumefiles.Name
		if info, err := in.Lstat(e.Name()); err == nil && !info.IsDir() {
			sum += volumefiles.Pages(info.Size())
		}
		return nil
	})
	return sum
}

// hasAny says whether a version has something that must stay.
func (f *files) hasAny(version string, stays func(fs.FileInfo) bool) (has bool, err error) {
	visit := func(in *os.Root, name string) error {
		info, err := in.Lstat(name)
		if err == nil && stays(info) {
			has = true
			return fs.SkipAll
		}
		return err
	}
	if err = visit(f.dir, version); err == nil {
		err = walk(f.dir, version, "", func(in *os.Root, _ string, e fs.DirEntry) error {
			if e == nil {
				return nil
			}
			return visit(in, e.Name())
		})
	}
	if has {
		return true, nil
	}
	return false, err
}
