package agentdir

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// Kernels before 5.6 have no openat2.
func TestOpenDirByMountID(t *testing.T) {
	dir := t.TempDir()
	check.Fatal(t, os.Mkdir(filepath.Join(dir, "plain"), 0o755))
	check.Fatal(t, os.Symlink("plain", filepath.Join(dir, "link")))
	top := check.Value(os.Open(dir))(t)
	defer top.Close() //nolint:errcheck // of the test
	for name, open := range map[string]func(*os.File, string) (*os.File, error){"openat2": openDir, "mount ID": openDirByMountID} {
		sub, err := open(top, "plain")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		check.Error(t, sub.Close())
		check.Fails(t, check.Err(open(top, "link")), "%s: follows a link", name)
	}
	t.Run("mounted", func(t *testing.T) {
		hosttest.NeedRoot(t)
		hosttest.Bind(t, t.TempDir(), filepath.Join(dir, "plain"))
		for name, open := range map[string]func(*os.File, string) (*os.File, error){"openat2": openDir, "mount ID": openDirByMountID} {
			if _, err := open(top, "plain"); hostcall.KindOf(err) != port.StateConflict {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestRemoveTree(t *testing.T) {
	dir := t.TempDir()
	outside := t.TempDir()
	hosttest.Write(t, filepath.Join(outside, "file"), "kept")
	tree := filepath.Join(dir, "tree")
	for i := range 1000 { // more than one batch
		hosttest.Write(t, filepath.Join(tree, "many", strconv.Itoa(i)), "")
	}
	for link, target := range map[string]string{"abs": outside, "up": "..", "self": "."} {
		check.Fatal(t, os.Symlink(target, filepath.Join(tree, link)))
	}
	check.Fatal(t, unix.Mkfifo(filepath.Join(tree, "fifo"), 0o600))
	nest(t, tree, 2000)
	top := check.Value(os.Open(dir))(t)
	defer top.Close() //nolint:errcheck // of the test
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := RemoveTree(ended, top, "tree"); hostcall.KindOf(err) != port.Canceled {
		t.Errorf("with a context that ended: %v", err)
	}
	for range 2 {
		check.Fatal(t, RemoveTree(t.Context(), top, "tree"))
	}
	hosttest.WantGone(t, tree)
	hosttest.WantMode(t, filepath.Join(outside, "file"), 0o600)
}

// TestRemoveDirs: files stay, but for those at one depth, and so does what lies too deep to be looked at where it is.
func TestRemoveDirs(t *testing.T) {
	a := check.Value(Open(t.TempDir(), 0o755))(t)
	defer a.Root.Close() //nolint:errcheck // of the test
	at := func(name string) string { return filepath.Join(a.Real, name) }
	for _, name := range []string{"x/y/z", "x/y/file", "x/file", "x/y/z/file"} {
		if filepath.Base(name) == "file" {
			hosttest.Write(t, at(name), "x")
		} else {
			check.Fatal(t, os.MkdirAll(at(name), 0o755))
		}
	}
	remove := func(files int) error { return a.RemoveDirs(t.Context(), ".", "x", files) }
	if err := remove(1); hostcall.KindOf(err) != port.StateConflict {
		t.Error(err)
	}
	hosttest.WantGone(t, at("x/file"))
	hosttest.WantMode(t, at("x/y/file"), 0o600)
	check.Fatal(t, os.Remove(at("x/y/file")))
	check.Fatal(t, os.Remove(at("x/y/z/file")))
	check.Fatal(t, os.Symlink("y", at("x/link")))
	if err := remove(0); hostcall.KindOf(err) != port.StateConflict {
		t.Error(err)
	}
	hosttest.WantGone(t, at("x/y"))
	hosttest.WantMode(t, at("x/link"), 0o777|os.ModeSymlink)
	check.Fatal(t, os.Remove(at("x/link")))
	nest(t, at("x"), 2*removalDepth)
	if err := remove(0); err == nil {
		t.Error("a tree that is too deep is gone")
	}
	if entries := check.Value(os.ReadDir(at("x")))(t); len(entries) != 1 || entries[0].Name() != "deeper" {
		t.Errorf("it was moved: %v", entries)
	}
	check.Fatal(t, a.Remove(t.Context(), ".", "x"))
	for range 2 {
		check.Fatal(t, remove(0))
	}
	hosttest.WantGone(t, at("x"))
}

// nest makes directories in each other, more than a path can name.
func nest(t *testing.T, dir string, depth int) {
	t.Helper()
	at := check.Value(unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0))(t)
	for range depth {
		check.Fatal(t, unix.Mkdirat(at, "deeper", 0o755))
		next := check.Value(unix.Openat(at, "deeper", unix.O_PATH|unix.O_CLOEXEC, 0))(t)
		check.Fatal(t, unix.Close(at))
		at = next
	}
	check.Fatal(t, unix.Close(at))
}
