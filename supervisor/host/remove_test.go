package host

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

// A mount that a container left behind, of the same file system: nothing but
// mountinfo and the kernel's own refusal tells it from a directory.
func TestRemovalRefusesMounts(t *testing.T) {
	needRoot(t)
	l := newLab(t)
	precious := t.TempDir()
	write(t, filepath.Join(precious, "file"), "precious")
	path := l.mustMount(newPod(), emptyDir("data", v1.EmptyDirVolumeSource{}))
	write(t, filepath.Join(path, "other"), "x")
	point := filepath.Join(path, "in here", "deep")
	if err := os.MkdirAll(point, 0o755); err != nil {
		t.Fatal(err)
	}
	unmount := bind(t, precious, point)

	wantError(t, l.unmount("u1"), port.StateConflict, "UnmountPod u1", "still mounted, nothing was removed", point)
	wantError(t, l.remove(port.PodDirs{UID: "u1"}), port.StateConflict, point)
	wantMode(t, filepath.Join(path, "other"), 0o600)

	// Mounted after mountinfo was read: the kernel refuses.
	read := l.mounts
	l.mounts = func() ([]mount, error) { return nil, nil }
	for range 2 {
		wantError(t, l.unmount("u1"), port.StateConflict, point+" is mounted")
	}
	if b, err := os.ReadFile(filepath.Join(precious, "file")); string(b) != "precious" {
		t.Fatalf("the mount was emptied: %v", err)
	}
	l.mounts = read
	unmount()
	if err := l.unmount("u1"); err != nil {
		t.Fatal(err)
	}
	wantMode(t, filepath.Join(precious, "file"), 0o600)
}

// Of a pod that has no volumes of its own nobody asks what is mounted.
func TestNothingToUnmount(t *testing.T) {
	needRoot(t)
	l := newLab(t)
	p := newPod()
	if err := l.prepare(p); err != nil {
		t.Fatal(err)
	}
	l.mustMount(p, hostPath(t.TempDir(), v1.HostPathDirectory))
	read := l.mounts
	l.mounts = func() ([]mount, error) {
		t.Error("all that is mounted was read")
		return read()
	}
	for range 2 {
		if err := l.unmount("u1"); err != nil {
			t.Fatal(err)
		}
	}
	// One that is mounted on the very directory is not nothing.
	l.mounts = read
	if err := l.prepare(p); err != nil {
		t.Fatal(err)
	}
	point := filepath.Join(l.pods.real, "u1", volumesDir)
	unmount := bind(t, t.TempDir(), point)
	wantError(t, l.unmount("u1"), port.StateConflict, "UnmountPod u1", point)
	unmount()
	if err := l.unmount("u1"); err != nil {
		t.Fatal(err)
	}
}

func TestRemovalRefusesAMountedFile(t *testing.T) {
	needRoot(t)
	l := newLab(t)
	source := filepath.Join(t.TempDir(), "file")
	write(t, source, "precious")
	point := filepath.Join(l.mustMount(newPod(), emptyDir("data", v1.EmptyDirVolumeSource{})), "f")
	write(t, point, "")
	bind(t, source, point)
	l.mounts = func() ([]mount, error) { return nil, nil }
	wantError(t, l.unmount("u1"), port.StateConflict, point+" is mounted")
	wantMode(t, source, 0o600)
}

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
		needRoot(t)
		bind(t, t.TempDir(), filepath.Join(dir, "plain"))
		for name, open := range map[string]func(*os.File, string) (*os.File, error){"openat2": openDir, "mount ID": openDirByMountID} {
			if _, err := open(top, "plain"); kindOf(err) != port.StateConflict {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestRemoveTree(t *testing.T) {
	dir := t.TempDir()
	outside := t.TempDir()
	write(t, filepath.Join(outside, "file"), "kept")
	tree := filepath.Join(dir, "tree")
	for i := range 1000 { // more than one batch
		write(t, filepath.Join(tree, "many", strconv.Itoa(i)), "")
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
	ended, cancel := context.WithCancel(ctx(t))
	cancel()
	if err := removeTree(ended, top, "tree"); kindOf(err) != port.Canceled {
		t.Errorf("with a context that ended: %v", err)
	}
	for range 2 {
		if err := removeTree(ctx(t), top, "tree"); err != nil {
			t.Fatal(err)
		}
	}
	wantGone(t, tree)
	wantMode(t, filepath.Join(outside, "file"), 0o600)
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

func TestParseMounts(t *testing.T) {
	got, err := parseMounts(`22 27 0:21 / /proc rw,relatime - proc proc rw
36 35 98:0 /mnt1 /a\040b\134c rw,noatime master:1 shared:2 - nfs4 server:/x\040y rw,errors=continue
40 31 0:37 / /a rw - tmpfs  rw
`)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got[1] != (mount{Point: `/a b\c`, Type: "nfs4", Source: "server:/x y"}) {
		t.Errorf("got %+v", got)
	}
	if below := mountsBelow(got, "/a"); len(below) != 1 || below[0].Point != "/a" {
		t.Errorf("below /a: %v", below)
	}
	if _, err := parseMounts("nonsense\n"); err == nil {
		t.Error("nonsense is taken")
	}
}
