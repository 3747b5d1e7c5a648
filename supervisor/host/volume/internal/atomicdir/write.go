// Package atomicdir replaces the files of a volume all at once.
package atomicdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/volumefiles"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
)

// Names within a volume of files, as the kubelet has them.
const (
	dataName    = "..data"
	newDataName = "..data_tmp"
	ownPrefix   = ".."
	stampLayout = "..2006_01_02_15_04_05."
	filesMode   = 0o755 // of directories within a volume
	firstMode   = 0o600 // of a file, until it has its own
)

// files is the directory of a volume that is made of files. Whoever reads
// through ..data sees one version as a whole: the step from one to the next is
// the rename of a link.
//
//	..2006_01_02_15_04_05.1/   the version in use
//	  etc/x
//	..data ─► ..2006_01_02_15_04_05.1
//	etc    ─► ..data/etc       one for each first name
//	more/                      where another volume is mounted
//
// A version that is not in use any more stays while something else shows a part of it (Bound). A later write removes
// it.
//
// It can be interrupted between any two steps: what is there is the old version
// or the new one, and the next write tidies up.
type files struct {
	dir   *os.Root
	bound Bound
	// room says whether a new version fits; nil: it does. Old is how many bytes the one before gives back.
	room func(old int64) error
	// step is called before each step, to interrupt it.
	step func() error
}

// Written reports whether the volume in dir, below root, was complete at some time.
func Written(root *os.Root, dir string) bool {
	_, err := root.Lstat(filepath.Join(dir, dataName))
	return err == nil
}

// Bound tells which files and directories must stay although they are of an old version. It is asked when another one
// is in use, so what is found through ..data from then on is not of the old one.
type Bound func() (func(fs.FileInfo) bool, error)

// Write brings the files in dir up to date. If room is not nil, its error is why a new version is not made; old is how
// many bytes the one before gives back afterwards.
func Write(
	ctx context.Context, dir *os.Root, c *volumefiles.Content, now time.Time, bound Bound, room func(old int64) error,
) error {
	_, err := (&files{dir: dir, bound: bound, room: room}).write(ctx, c, now)
	return err
}

// write brings the directory up to date, and reports whether the files changed.
func (f *files) write(ctx context.Context, c *volumefiles.Content, now time.Time) (changed bool, err error) {
	old, err := f.current()
	if err != nil {
		return false, err
	}
	current := old
	if old == "" || !f.same(old, c) {
		// What an earlier try has left takes the room of this one.
		if err := f.tidy(ctx, old, nil); err != nil {
			return false, err
		}
		if f.room != nil {
			if err := f.room(f.bytes(old)); err != nil {
				return false, err
			}
		}
		if current, err = f.version(ctx, c, now); err != nil {
			return false, err
		}
	}
	// In this order: what hides a name takes it first.
	if err := f.points(c); err != nil {
		return false, err
	}
	if err := f.link(c); err != nil {
		return false, err
	}
	return current != old, f.tidy(ctx, current, c)
}

// current is the name of the version in use, empty if there is none.
func (f *files) current() (string, error) {
	name, err := f.dir.Readlink(dataName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case !strings.HasPrefix(name, ownPrefix) || strings.Contains(name, "/"):
		return "", nil // not made by this package
	}
	return name, nil
}

// version makes a new version and puts it into use.
func (f *files) version(ctx context.Context, c *volumefiles.Content, now time.Time) (string, error) {
	name, err := f.newDir(now)
	if err != nil {
		return "", err
	}
	if err := own(f.dir, name, dirMode(c), nil, c.Group); err != nil {
		return "", err
	}
	root, err := f.dir.OpenRoot(name)
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // what was written is not held by it
	for i := range c.Files {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if err := f.file(root, &c.Files[i], c); err != nil {
			return "", err
		}
	}
	if err := f.next(); err != nil {
		return "", err
	}
	if err := f.dir.Remove(newDataName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := f.dir.Symlink(name, newDataName); err != nil {
		return "", err
	}
	if err := f.next(); err != nil {
		return "", err
	}
	return name, f.dir.Rename(newDataName, dataName)
}

// newDir makes the directory of a version, with an unused name.
func (f *files) newDir(now time.Time) (string, error) {
	if err := f.next(); err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s%d", now.Format(stampLayout), n)
		if err := f.dir.Mkdir(name, agentdir.Mode); !errors.Is(err, fs.ErrExist) {
			return name, err
		}
	}
}

func (f *files) file(version *os.Root, file *volumefiles.File, c *volumefiles.Content) error {
	if err := f.next(); err != nil {
		return err
	}
	dir, name := path.Split(file.Path)
	in, err := descend(version, dir, c)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // what was written is not held by it
	if err := in.WriteFile(name, file.Data, firstMode); err != nil {
		return err
	}
	return own(in, name, fs.FileMode(file.Mode), file.User, c.Group)
}

// descend opens a directory below another one, and makes what is missing on the way: each from the one above it, as a
// path may have two thousand elements.
func descend(from *os.Root, dir string, c *volumefiles.Content) (*os.Root, error) {
	at, err := from.OpenRoot(".")
	for name := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		if err != nil || name == "" {
			break
		}
		above := at
		if err = above.Mkdir(name, agentdir.Mode); err == nil {
			err = own(above, name, dirMode(c), nil, c.Group)
		} else if errors.Is(err, fs.ErrExist) {
			err = nil
		}
		if err == nil {
			at, err = above.OpenRoot(name)
		}
		above.Close() //nolint:errcheck // what was written is not held by it
	}
	return at, err
}

func dirMode(c *volumefiles.Content) fs.FileMode {
	if c.Group != nil {
		return filesMode | fs.ModeSetgid
	}
	return filesMode
}

func own(in *os.Root, name string, mode fs.FileMode, user, group *int64) error {
	if user != nil || group != nil {
		if err := in.Lchown(name, idOf(user), idOf(group)); err != nil {
			return err
		}
	}
	return in.Chmod(name, mode)
}

// owned reports whether own would change nothing.
func owned(in *os.Root, name string, mode fs.FileMode, user, group *int64) bool {
	info, err := in.Lstat(name)
	if err != nil {
		return false
	}
	uid, gid := agentdir.OwnerOf(info)
	const all = fs.ModePerm | fs.ModeSetgid
	return info.Mode()&all == mode &&
		(user == nil && uid == os.Geteuid() || user != nil && int64(uid) == *user) &&
		(group == nil || int64(gid) == *group)
}

// idOf is what chown(2) takes for "leave it".
func idOf(id *int64) int {
	if id == nil {
		return -1
	}
	return int(*id)
}

// points makes the directories at which other volumes are mounted. Where a file of the volume was there first, it
// stays: containers may run with it.
func (f *files) points(c *volumefiles.Content) error {
	for _, point := range c.Points {
		if err := f.point(point, c); err != nil {
			return err
		}
	}
	return nil
}

func (f *files) point(point string, c *volumefiles.Content) error {
	at, err := f.dir.OpenRoot(".")
	for name := range strings.SplitSeq(point, "/") {
		if err != nil {
			break
		}
		above := at
		info, statErr := above.Lstat(name)
		switch {
		case errors.Is(statErr, fs.ErrNotExist):
			if err = f.next(); err == nil {
				err = above.Mkdir(name, agentdir.Mode)
			}
		case statErr != nil:
			err = statErr
		case !info.IsDir():
			return above.Close()
		}
		if err == nil && !owned(above, name, dirMode(c), nil, c.Group) {
			err = own(above, name, dirMode(c), nil, c.Group)
		}
		if err == nil {
			at, err = above.OpenRoot(name)
		}
		above.Close() //nolint:errcheck // what was written is not held by it
	}
	if err != nil {
		return err
	}
	return at.Close()
}

// link makes the names by which users read. A directory at which other volumes are mounted hides what has its name.
func (f *files) link(c *volumefiles.Content) error {
	hidden := firstNames(c.Points)
	for name := range topNames(c) {
		to := path.Join(dataName, name)
		got, err := f.dir.Readlink(name)
		if err == nil && got == to || err != nil && !errors.Is(err, fs.ErrNotExist) && hidden[name] {
			continue
		}
		if err := f.next(); err != nil {
			return err
		}
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			if err := f.dir.RemoveAll(name); err != nil {
				return err
			}
		}
		if err := f.dir.Symlink(to, name); err != nil {
			return err
		}
	}
	return nil
}

func topNames(c *volumefiles.Content) map[string]bool {
	paths := make([]string, len(c.Files))
	for i := range c.Files {
		paths[i] = c.Files[i].Path
	}
	return firstNames(paths)
}

func firstNames(paths []string) map[string]bool {
	names := map[string]bool{}
	for _, p := range paths {
		name, _, _ := strings.Cut(p, "/")
		names[name] = true
	}
	return names
}

// tidy removes what is not of the current version, nor of one that must stay; without a content, versions alone.
// Directories without the writer's names stay: other volumes are mounted at them, or they were made for a subPath.
func (f *files) tidy(ctx context.Context, current string, c *volumefiles.Content) error {
	dir, err := f.dir.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // nothing was written
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	if c != nil {
		keep = topNames(c)
	}
	keep[dataName], keep[current] = true, true
	var stays func(fs.FileInfo) bool
	for _, e := range entries {
		version := e.IsDir() && strings.HasPrefix(e.Name(), ownPrefix)
		if keep[e.Name()] || e.IsDir() && !version || c == nil && !version {
			continue
		}
		if version && f.bound != nil {
			if stays == nil {
				if stays, err = f.bound(); err != nil {
					return err
				}
			}
			if has, err := f.hasAny(e.Name(), stays); err != nil {
				return err
			} else if has {
				continue
			}
		}
		if err := f.next(); err != nil {
			return err
		}
		if err := agentdir.RemoveTree(ctx, dir, e.Name()); err != nil {
			return err
		}
	}
	return nil
}

func (f *files) next() error {
	if f.step != nil {
		return f.step()
	}
	return nil
}
