package area

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/hostcall"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// Kernels before 5.6 have no openat2.
func TestOpenDirByMountID(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "plain"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("plain", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	top, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close() //nolint:errcheck // of the test
	for name, open := range map[string]func(*os.File, string) (*os.File, error){"openat2": openDir, "mount ID": openDirByMountID} {
		sub, err := open(top, "plain")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := sub.Close(); err != nil {
			t.Error(err)
		}
		if _, err := open(top, "link"); err == nil {
			t.Errorf("%s: follows a link", name)
		}
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
		if err := os.Symlink(target, filepath.Join(tree, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(tree, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	nest(t, tree, 2000)
	top, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close() //nolint:errcheck // of the test
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := RemoveTree(ended, top, "tree"); hostcall.KindOf(err) != port.Canceled {
		t.Errorf("with a context that ended: %v", err)
	}
	for range 2 {
		if err := RemoveTree(t.Context(), top, "tree"); err != nil {
			t.Fatal(err)
		}
	}
	hosttest.WantGone(t, tree)
	hosttest.WantMode(t, filepath.Join(outside, "file"), 0o600)
}

// nest makes directories in each other, more than a path can name.
func nest(t *testing.T, dir string, depth int) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range depth {
		if err := unix.Mkdirat(at, "deeper", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(at, "deeper", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Close(at); err != nil {
			t.Fatal(err)
		}
		at = next
	}
	if err := unix.Close(at); err != nil {
		t.Fatal(err)
	}
}
