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
