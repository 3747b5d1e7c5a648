package mounts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// TestShare: a directory on a file system that is not shared becomes a shared mount, once, also through a link, and can be
// removed when that was taken back.
func TestShare(t *testing.T) {
	private := notShared(t)
	root, link := filepath.Join(private, "root"), filepath.Join(private, "link")
	check.Fatal(t, os.Mkdir(root, 0o750))
	check.Fatal(t, os.Symlink(root, link))
	hosttest.Write(t, filepath.Join(root, "kept"), "here")
	wantShare(t, link, true)
	if m := on(t, root); m.Point != root || !m.Shared {
		t.Errorf("it is on %+v", m)
	}
	check.Equal(t, string(check.Value(os.ReadFile(filepath.Join(root, "kept")))(t)), "here", "what was there before")
	wantShare(t, root, false)
	// The next agent finds the mounts of pods below it.
	unmount := hosttest.Bind(t, subdir(t, root, "source"), subdir(t, root, "pod"))
	wantShare(t, link, false)
	if below := mounts.Below(table(t), root); len(below) != 2 {
		t.Errorf("mounted: %v", below)
	}
	if err := mounts.Unshare(link); err != nil || len(mounts.Below(table(t), root)) != 2 {
		t.Errorf("with a mount below it: %v, %v", err, mounts.Below(table(t), root))
	}
	unmount()
	check.Error(t, mounts.Unshare(link))
	check.Fatal(t, os.RemoveAll(root))
}

// TestShareHidesNothing: with the mounts of pods below the directory it stays as it is, and they can be unmounted.
func TestShareHidesNothing(t *testing.T) {
	private := notShared(t)
	root := subdir(t, private, "root")
	source, pod := subdir(t, private, "source"), subdir(t, root, "pod")
	unmount := hosttest.Bind(t, source, pod)
	made, err := mounts.Share(root)
	if made || err == nil || !strings.Contains(err.Error(), pod) {
		t.Errorf("got %v, %v", made, err)
	}
	unmount()
	check.Fatal(t, os.Remove(pod))
}

// TestShareOwnMount: a directory that is a mount of its own becomes shared, also with mounts below it.
func TestShareOwnMount(t *testing.T) {
	root := notShared(t)
	pod := subdir(t, root, "pod")
	unmount := hosttest.Bind(t, subdir(t, root, "source"), pod)
	wantShare(t, root, false)
	if m := on(t, root); m.Point != root || !m.Shared {
		t.Errorf("it is on %+v", m)
	}
	unmount()
	check.Fatal(t, os.Remove(pod))
}

// notShared is a directory on a file system of its own that is not shared.
func notShared(t *testing.T) string {
	hosttest.NeedRoot(t)
	dir := t.TempDir()
	check.Fatal(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() {
		for range len(mounts.Below(table(t), dir)) {
			unix.Unmount(dir, unix.MNT_DETACH) //nolint:errcheck // one of those below it may have gone with it
		}
	})
	check.Fatal(t, unix.Mount("", dir, "", unix.MS_PRIVATE, ""))
	return dir
}

func subdir(t *testing.T, parent, name string) string {
	t.Helper()
	dir := filepath.Join(parent, name)
	check.Fatal(t, os.Mkdir(dir, 0o750))
	return dir
}

func wantShare(t *testing.T, dir string, want bool) {
	t.Helper()
	if made, err := mounts.Share(dir); err != nil || made != want {
		t.Fatalf("made %v, %v; want %v", made, err, want)
	}
}

func table(t *testing.T) []mounts.Mount {
	t.Helper()
	return check.Value(mounts.Now())(t)
}

func on(t *testing.T, dir string) mounts.Mount {
	t.Helper()
	m := mounts.Of(table(t), dir)
	if m == nil {
		t.Fatal("it is on nothing")
	}
	return *m
}
