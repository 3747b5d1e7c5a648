// Package atomicdir replaces the files of a volume all at once.
package atomicdir

import (
	"bytes"
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
	"github.com/troupe-dev/troupe/supervisor/host/area"
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
		if current, err = f.version(c, now); err != nil {
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

// same reports whether a version holds just what c says.
func (f *files) same(version string, c *volumefiles.Content) bool {
	want := make(map[string]*volumefiles.File, len(c.Files))
	dirs := map[string]bool{".": true}
	for i := range c.Files {
		p := c.Files[i].Path
		want[p] = &c.Files[i]
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	seen := 0
	err := fs.WalkDir(f.dir.FS(), version, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		p, err := filepath.Rel(version, name)
		if err != nil {
			return err
		}
		if e.IsDir() {
			if !dirs[p] || !f.owned(name, dirMode(c), nil, c.Group) {
				return errDiffers
			}
			return nil
		}
		w := want[p]
		if w == nil || !e.Type().IsRegular() || !f.owned(name, fs.FileMode(w.Mode), w.User, c.Group) {
			return errDiffers
		}
		data, err := f.dir.ReadFile(name)
		if err != nil || !bytes.Equal(data, w.Data) {
			return errDiffers
		}
		seen++
		return nil
	})
	return err == nil && seen == len(want)
}

var errDiffers = errors.New("differs")

// version makes a new version and puts it into use.
func (f *files) version(c *volumefiles.Content, now time.Time) (string, error) {
	name, err := f.newDir(now)
	if err != nil {
		return "", err
	}
	if err := f.own(name, dirMode(c), nil, c.Group); err != nil {
		return "", err
	}
	for i := range c.Files {
		if err := f.file(name, &c.Files[i], c); err != nil {
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
		if err := f.dir.Mkdir(name, area.Mode); !errors.Is(err, fs.ErrExist) {
			return name, err
		}
	}
}

func (f *files) file(version string, file *volumefiles.File, c *volumefiles.Content) error {
	if err := f.next(); err != nil {
		return err
	}
	dir := version
	for name := range strings.SplitSeq(path.Dir(file.Path), "/") {
		if name == "." {
			break
		}
		dir = path.Join(dir, name)
		err := f.dir.Mkdir(dir, area.Mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := f.own(dir, dirMode(c), nil, c.Group); err != nil {
			return err
		}
	}
	name := path.Join(version, file.Path)
	if err := f.dir.WriteFile(name, file.Data, firstMode); err != nil {
		return err
	}
	return f.own(name, fs.FileMode(file.Mode), file.User, c.Group)
}

func dirMode(c *volumefiles.Content) fs.FileMode {
	if c.Group != nil {
		return filesMode | fs.ModeSetgid
	}
	return filesMode
}

func (f *files) own(name string, mode fs.FileMode, user, group *int64) error {
	if user != nil || group != nil {
		if err := f.dir.Lchown(name, idOf(user), idOf(group)); err != nil {
			return err
		}
	}
	return f.dir.Chmod(name, mode)
}

// owned reports whether own would change nothing.
func (f *files) owned(name string, mode fs.FileMode, user, group *int64) bool {
	info, err := f.dir.Lstat(name)
	if err != nil {
		return false
	}
	uid, gid := area.OwnerOf(info)
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
		at := ""
		for name := range strings.SplitSeq(point, "/") {
			at = path.Join(at, name)
			info, err := f.dir.Lstat(at)
			if errors.Is(err, fs.ErrNotExist) {
				if err = f.next(); err == nil {
					err = f.dir.Mkdir(at, area.Mode)
				}
			} else if err == nil && !info.IsDir() {
				break
			}
			if err == nil && !f.owned(at, dirMode(c), nil, c.Group) {
				err = f.own(at, dirMode(c), nil, c.Group)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
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

// bytes is how much the files of a version take.
func (f *files) bytes(version string) (sum int64) {
	if version == "" {
		return 0
	}
	_ = fs.WalkDir(f.dir.FS(), version, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil // what can't be read gives nothing back
		}
		if info, err := e.Info(); err == nil {
			sum += volumefiles.Pages(info.Size())
		}
		return nil
	})
	return sum
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
		if err := area.RemoveTree(ctx, dir, e.Name()); err != nil {
			return err
		}
	}
	return nil
}

// hasAny says whether a version has something that must stay.
func (f *files) hasAny(version string, stays func(fs.FileInfo) bool) (has bool, err error) {
	err = fs.WalkDir(f.dir.FS(), version, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && stays(info) {
			has = true
			return fs.SkipAll
		}
		return err
	})
	return has, err
}

func (f *files) next() error {
	if f.step != nil {
		return f.step()
	}
	return nil
}
