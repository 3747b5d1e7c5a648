package filecount

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

var past = time.Unix(1, 0)

// A walk that does not come to its end says so. One that does is complete, though its last name was the last allowed.
func TestPartialWalk(t *testing.T) {
	dir := t.TempDir()
	for i := range 200 {
		hosttest.Write(t, filepath.Join(dir, fmt.Sprint(i)), "")
	}
	hosttest.Write(t, filepath.Join(dir, "below/file"), strings.Repeat("x", 1<<20))
	links := t.TempDir()
	hosttest.Write(t, filepath.Join(links, "file"), "")
	for i := range 200 {
		check.Fatal(t, os.Link(filepath.Join(links, "file"), filepath.Join(links, fmt.Sprint(i))))
	}
	few := t.TempDir()
	hosttest.Write(t, filepath.Join(few, "file"), "")
	for name, c := range map[string]struct {
		walk        Walk
		dir         string
		partial     bool
		least, most uint64
	}{
		"all":                   {Walk{}, dir, false, 203, 203},
		"as many as there are":  {Walk{Most: 203}, dir, false, 203, 203},
		"one less":              {Walk{Most: 202}, dir, true, 202, 202},
		"no time":               {Walk{End: past}, dir, true, 1, look},
		"enough time":           {Walk{End: time.Now().Add(time.Hour)}, dir, false, 203, 203},
		"no time for few":       {Walk{End: past}, few, false, 2, 2},
		"no time for links":     {Walk{End: past}, links, true, 2, 2},
		"at most so many links": {Walk{Most: 100}, links, true, 2, 2},
		"links":                 {Walk{}, links, false, 2, 2},
		"nothing":               {Walk{End: past}, dir + "/none", false, 0, 0},
	} {
		got := c.walk.Of(c.dir)
		if got.Partial != c.partial || got.Entries < c.least || got.Entries > c.most || got.Walked != (c.most > 0) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Directories count that are nested so deep that no path can name them, and not all can be open at once.
func TestDeepWalk(t *testing.T) {
	top := t.TempDir()
	fd, err := unix.Open(top, openFlags, 0)
	for i := 0; err == nil && i < 2*deepest+5; i++ {
		name := fmt.Sprintf("%020d", i)
		err = unix.Mkdirat(fd, name, 0o755)
		next, opened := unix.Openat(fd, name, openFlags, 0)
		if err == nil {
			err = opened
		}
		unix.Close(fd) //nolint:errcheck // it was not written to
		fd = next
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd) //nolint:errcheck // it was not written to
	file := check.Value(unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600))(t)
	f := os.NewFile(uintptr(file), "file")
	defer f.Close() //nolint:errcheck // Sync tells of errors
	if _, err = f.Write(make([]byte, 1<<20)); err == nil {
		err = f.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
	var files unix.Rlimit
	check.Fatal(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &files))
	few := unix.Rlimit{Cur: deepest + 50, Max: files.Max}
	check.Fatal(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &files) //nolint:errcheck // it was so before
	if got := (Walk{}).Of(top); got.Partial || got.Entries != 2*deepest+7 || got.Bytes < 1<<20 {
		t.Errorf("%+v, want %d entries", got, 2*deepest+7)
	}
}

// A link on the way to a deep directory is not followed.
func TestOpenDeep(t *testing.T) {
	top := t.TempDir()
	hosttest.Write(t, filepath.Join(top, "a/b/file"), "")
	check.Fatal(t, os.Symlink("a", filepath.Join(top, "link")))
	for path, want := range map[string]bool{"": true, "/a": true, "/a/b": true, "/link/b": false, "/a/b/file": false} {
		fd, err := open(top, path)
		check.Equal(t, err == nil, want, "%q: %v", path, err)
		unix.Close(fd) //nolint:errcheck // it was not written to
	}
}

// What can't be read makes a count partial, unless it is gone. So do more deep directories than are remembered.
func TestLost(t *testing.T) {
	for err, want := range map[error]bool{
		io.EOF: false, unix.ENOENT: false, unix.ENOTDIR: false, unix.ELOOP: false, unix.EIO: true, unix.EMFILE: true,
		fmt.Errorf("read: %w", unix.EIO): true,
	} {
		w := walk{}
		if w.lost(err); w.Partial != want {
			t.Errorf("%v: partial is %v", err, w.Partial)
		}
	}
	w := walk{way: []string{strings.Repeat("x", farMost/2)}}
	for range 2 {
		w.later("y")
	}
	if len(w.far) != 1 || !w.Partial {
		t.Errorf("%d directories are remembered; partial is %v", len(w.far), w.Partial)
	}
}

// Files with many names are counted once too if there are more of them than are remembered.
func TestManyLinks(t *testing.T) {
	w := walk{links: make(map[uint64]uint64, linksMost)}
	for ino := range uint64(linksMost) {
		w.links[ino] = 1
	}
	for range 4 {
		w.add(&unix.Stat_t{Ino: linksMost, Nlink: 4, Blocks: 8})
	}
	if w.shares != 1 || w.Bytes != 4096 || len(w.links) != linksMost {
		t.Errorf("%v files, %d bytes, %d are remembered", w.shares, w.Bytes, len(w.links))
	}
	w.add(&unix.Stat_t{Ino: 1, Nlink: 2, Blocks: 8})
	if w.Entries != 0 || w.Bytes != 4096 || len(w.links) != linksMost-1 {
		t.Errorf("its last name: %d files, %d bytes, %d are remembered", w.Entries, w.Bytes, len(w.links))
	}
}
