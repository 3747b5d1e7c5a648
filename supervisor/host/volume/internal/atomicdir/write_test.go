package atomicdir

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/volumefiles"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

func content(pairs ...string) *volumefiles.Content {
	c := &volumefiles.Content{}
	for i := 0; i < len(pairs); i += 2 {
		c.Files = append(c.Files, volumefiles.File{Path: pairs[i], Data: []byte(pairs[i+1]), Mode: 0o644})
	}
	return c
}

// readAll reads what users see below dir: path to data.
func readAll(dir string) (map[string]string, error) {
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(p) // links are followed
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		switch {
		case name != "." && strings.HasPrefix(name, ownPrefix):
			if e.IsDir() {
				return fs.SkipDir
			}
		case e.Type()&fs.ModeSymlink != 0 && info.IsDir():
			below, err := readAll(p + "/.")
			if err != nil {
				return err
			}
			for k, v := range below {
				got[filepath.Join(name, k)] = v
			}
		case info.Mode().IsRegular():
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			got[name] = string(text)
		}
		return nil
	})
	return got, err
}

func wanted(c *volumefiles.Content) map[string]string {
	m := map[string]string{}
	for _, f := range c.Files {
		m[f.Path] = string(f.Data)
	}
	return m
}

func openFiles(t check.Test, dir string) *files {
	root := check.Value(os.OpenRoot(dir))(t)
	return &files{dir: root}
}

func TestFilesAreWrittenOnce(t *testing.T) {
	dir := t.TempDir()
	f := openFiles(t, dir)
	defer f.dir.Close() //nolint:errcheck // nothing is held
	c := content("a", "1", "etc/b", "2", "etc/deep/c", "3")
	for i, want := range []bool{true, false} {
		if changed, err := f.write(t.Context(), c, time.Now()); changed != want || err != nil {
			t.Errorf("write %d: changed %v, %v", i, changed, err)
		}
	}
	got, err := readAll(dir)
	if err != nil || !maps.Equal(got, wanted(c)) {
		t.Errorf("%v, %v", got, err)
	}
	hosttest.WantMode(t, filepath.Join(dir, "..data/etc/b"), 0o644)
	hosttest.WantMode(t, filepath.Join(dir, "..data/etc"), 0o755|os.ModeDir)
	hosttest.WantMode(t, filepath.Join(dir, "etc"), 0o777|os.ModeSymlink)
	// A mode is a change as well, and so is a file that somebody else changed.
	c.Files[0].Mode = 0o400
	if changed, err := f.write(t.Context(), c, time.Now()); !changed || err != nil {
		t.Error(changed, err)
	}
	hosttest.WantMode(t, filepath.Join(dir, "..data/a"), 0o400)
	check.Fatal(t, os.WriteFile(filepath.Join(dir, "etc/b"), []byte("mine"), 0o600))
	if changed, err := f.write(t.Context(), c, time.Now()); !changed || err != nil {
		t.Error(changed, err)
	}
	if changed, err := f.write(t.Context(), content(), time.Now()); !changed || err != nil {
		t.Error(changed, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("of an empty volume there are %v, %v", entries, err)
	}
}

// TestBoundStays: a version stays while something of it must, and goes with a later write.
func TestBoundStays(t *testing.T) {
	dir := t.TempDir()
	f := openFiles(t, dir)
	defer f.dir.Close() //nolint:errcheck // nothing is held
	var must []fs.FileInfo
	asked := 0
	f.bound = func() (func(fs.FileInfo) bool, error) {
		asked++
		return func(i fs.FileInfo) bool {
			return slices.ContainsFunc(must, func(m fs.FileInfo) bool { return os.SameFile(m, i) })
		}, nil
	}
	write := func(text string) {
		t.Helper()
		if _, err := f.write(t.Context(), content("etc/x", text), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	write("1")
	write("1")
	if asked > 0 {
		t.Error("nothing was to be removed")
	}
	first, err := filepath.EvalSymlinks(filepath.Join(dir, "etc/x"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(first)
	if err != nil {
		t.Fatal(err)
	}
	must = []fs.FileInfo{info}
	for _, text := range []string{"2", "3", "4"} {
		write(text)
		if now, err := os.Stat(first); err != nil || !os.SameFile(now, info) {
			t.Fatalf("version 1 is gone: %v", err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 4 { // ..data, etc, two versions
		t.Errorf("there are %v, %v", entries, err)
	}
	must = nil
	write("4")
	hosttest.WantGone(t, first)
}

// TestPoints: directories at which other volumes are mounted are there when a write has ended, and the very same after
// each update. They hide files of their names. Where a file was first, it stays.
func TestPoints(t *testing.T) {
	dir := t.TempDir()
	f := openFiles(t, dir)
	defer f.dir.Close() //nolint:errcheck // nothing is held
	write := func(c *volumefiles.Content, points ...string) {
		t.Helper()
		c.Points = points
		check.Value(f.write(t.Context(), c, time.Now()))(t)
	}
	at := func(name string) fs.FileInfo {
		t.Helper()
		return check.Value(os.Lstat(filepath.Join(dir, name)))(t)
	}
	write(content("a", "1", "etc/b", "2", "key", "3"), "deep/er", "etc/x", "key", "more")
	before := map[string]fs.FileInfo{}
	for _, name := range []string{"deep", "deep/er", "etc", "etc/x", "key", "more"} {
		hosttest.WantMode(t, filepath.Join(dir, name), 0o755|os.ModeDir)
		before[name] = at(name)
	}
	update := content("a", "2", "etc/b", "3", "key", "4", "new", "5")
	write(update, "deep/er", "etc/x", "key", "late", "new/x", "more")
	write(update, "a/x", "deep/er", "etc/x", "key", "late", "more", "new/x")
	for name, info := range before {
		if !os.SameFile(at(name), info) {
			t.Errorf("%s is another directory after an update", name)
		}
	}
	hosttest.WantMode(t, filepath.Join(dir, "late"), 0o755|os.ModeDir)
	hosttest.WantMode(t, filepath.Join(dir, "new"), 0o755|os.ModeDir)
	got := check.Value(readAll(dir))(t)
	if want := map[string]string{"a": "2"}; !maps.Equal(got, want) {
		t.Errorf("users see %v, want %v", got, want)
	}
	got = check.Value(readAll(filepath.Join(dir, dataName) + "/."))(t)
	if !maps.Equal(got, wanted(update)) {
		t.Errorf("the version has %v", got)
	}
}

// TestPointsOfAGroup: they are the group's, as the other directories of the volume.
func TestPointsOfAGroup(t *testing.T) {
	hosttest.NeedRoot(t)
	dir := t.TempDir()
	f := openFiles(t, dir)
	defer f.dir.Close() //nolint:errcheck // nothing is held
	c := content("a", "1")
	c.Points, c.Group = []string{"x/y"}, new(int64(2000))
	for range 2 {
		check.Value(f.write(t.Context(), c, time.Now()))(t)
		for _, name := range []string{"x", "x/y"} {
			info := check.Value(f.dir.Lstat(name))(t)
			if _, gid := agentdir.OwnerOf(info); gid != 2000 || info.Mode() != 0o755|os.ModeDir|os.ModeSetgid {
				t.Errorf("%s: group %d, mode %s", name, gid, info.Mode())
			}
		}
	}
}

var errKilled = errors.New("killed")

// Killed before any step, the volume is as it was or as it is to be, through
// ..data, and the next write leaves just what it is to be.
func TestKilledAtAnyStep(t *testing.T) {
	base := t.TempDir()
	n := 0
	paths := []string{"a", "b", "etc/x", "etc/y", "etc/deep/z", "lib/q"}
	draw := func(t *rapid.T, name string) *volumefiles.Content {
		c := content()
		for _, p := range paths {
			if rapid.Bool().Draw(t, name+" "+p) {
				c.Files = append(c.Files, content(p, rapid.SampledFrom([]string{"1", "2", ""}).Draw(t, "data")).Files...)
			}
		}
		c.Points = []string{"at/x", "more"}
		return c
	}
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := filepath.Join(base, fmt.Sprint(n))
		check.Fatal(t, os.Mkdir(dir, 0o755))
		f := openFiles(t, dir)
		defer f.dir.Close() //nolint:errcheck // nothing is held
		versions := []*volumefiles.Content{content()}
		for range rapid.IntRange(1, 3).Draw(t, "rounds") {
			next := draw(t, "next")
			steps := rapid.IntRange(0, 17).Draw(t, "steps")
			f.step = func() error {
				if steps == 0 {
					return errKilled
				}
				steps--
				return nil
			}
			versions = append(versions, next)
			_, err := f.write(t.Context(), next, time.Now())
			if err != nil && !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			if current, _ := f.current(); current == "" {
				if err == nil {
					t.Fatal("nothing was written")
				}
				continue
			}
			seen, readErr := readAll(filepath.Join(dir, dataName) + "/.")
			whole := slices.ContainsFunc(versions, func(v *volumefiles.Content) bool { return maps.Equal(seen, wanted(v)) })
			if readErr != nil || !whole || err == nil && !maps.Equal(seen, wanted(next)) {
				t.Fatalf("after %v: %v, %v", err, seen, readErr)
			}
		}
		f.step = nil
		last := draw(t, "last")
		check.Value(f.write(t.Context(), last, time.Now()))(t)
		got, err := readAll(dir)
		if err != nil || !maps.Equal(got, wanted(last)) {
			t.Fatalf("in the end: %v, %v; want %v", got, err, wanted(last))
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != len(topNames(last))+4 { // ..data, the version, two points
			t.Fatalf("left over: %v, %v", entries, err)
		}
	})
}

// A reader that goes through ..data never sees a part of one version and a part of
// another.
func TestReadersSeeOneVersion(t *testing.T) {
	dir := t.TempDir()
	f := openFiles(t, dir)
	defer f.dir.Close() //nolint:errcheck // nothing is held
	version := func(n int) *volumefiles.Content { return content("a", fmt.Sprint(n), "b/c", fmt.Sprint(n)) }
	check.Value(f.write(t.Context(), version(0), time.Now()))(t)
	ended := make(chan error, 1)
	go func() {
		for n := 1; n < 200; n++ {
			if _, err := f.write(t.Context(), version(n), time.Now()); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	for {
		at, err := os.OpenRoot(filepath.Join(dir, dataName))
		if err == nil {
			a, errA := at.ReadFile("a")
			b, errB := at.ReadFile("b/c")
			if errA == nil && errB == nil && string(a) != string(b) {
				t.Errorf("read %s and %s", a, b)
			}
			check.Error(t, at.Close())
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
}
