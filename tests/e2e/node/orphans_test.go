package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// TestOrphanedDirectories shows that an agent removes the directories of 8,000 pods that nobody knows,
// that it does so soon, and that it removes nothing through a mount, be it busy or not.
//
//tier:real
func TestOrphanedDirectories(t *testing.T) {
	t.Parallel()
	hosttest.NeedRoot(t)
	const (
		orphans = 8000
		// From the start of the agent they may take as long as bar and this many times what a plain removal
		// takes: about five times what it takes.
		bar      = time.Minute
		times    = 10
		patience = 10 * time.Minute
	)
	b := newBed(t, lab.Releases[0])
	pods := filepath.Join(b.Root(), "pods")
	volume := func(i int, name string) string {
		return filepath.Join(pods, fmt.Sprintf("0a1b2c3d-0000-4000-8000-%012d", i), "volumes", "kubernetes.io~empty-dir", name)
	}
	write := func(path, text string) {
		t.Helper()
		check.Fatal(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check.Fatal(t, os.WriteFile(path, []byte(text), 0o600))
	}
	leave := func() {
		for i := range orphans {
			for _, file := range []string{"a", "b", "deep/c"} {
				write(filepath.Join(volume(i, "x"), file), "left")
			}
		}
	}
	leave()
	plain := time.Now()
	for i := range orphans {
		check.Fatal(t, os.RemoveAll(filepath.Join(volume(i, ""), "..", "..")))
	}
	reference := time.Since(plain)
	leave()

	// Two have another directory mounted in them; in the second, a file is open.
	canaries := map[string]string{"free": filepath.Join(b.dir, "free", "canary"), "busy": filepath.Join(b.dir, "busy", "canary")}
	for i, name := range []string{"free", "busy"} {
		write(canaries[name], name)
		mounted := volume(1000+i, "mounted")
		check.Fatal(t, os.MkdirAll(mounted, 0o755))
		check.Fatal(t, syscall.Mount(filepath.Dir(canaries[name]), mounted, "", syscall.MS_BIND, ""))
		t.Cleanup(func() { syscall.Unmount(mounted, syscall.MNT_DETACH) }) //nolint:errcheck // it ought to be unmounted
		if name == "busy" {
			held := check.Value(os.Open(filepath.Join(mounted, "canary")))(t)
			t.Cleanup(func() { held.Close() }) //nolint:errcheck // it was only read
		}
	}

	refused := refusesBusy(t)
	b.apply(t, "lives.yaml", asking("lives", "{}"))
	begun := time.Now()
	b.start(t)
	lives := b.awaitRunning(t, "lives")
	var first time.Duration
	err := lab.Eventually(t.Context(), patience, "orphaned directories are removed", func() error {
		left := check.Must(os.ReadDir(pods))
		if first == 0 && len(left) < orphans {
			first = time.Since(begun)
		}
		for _, dir := range left {
			switch filepath.Join(pods, dir.Name()) {
			case filepath.Join(pods, lives.UID), filepath.Join(volume(1001, ""), "..", ".."):
			default:
				return fmt.Errorf("%d are left", len(left))
			}
		}
		return nil
	})
	took := time.Since(begun)
	t.Logf("%d orphaned directories: the first was gone %s after the start, all after %s; a plain removal takes %s",
		orphans, first.Round(time.Millisecond), took.Round(time.Millisecond), reference.Round(time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	check.AtMost(t, took, bar+times*reference, "orphaned directories were removed after")
	for name, canary := range canaries {
		if text, err := os.ReadFile(canary); err != nil || string(text) != name {
			t.Errorf("the %s mount's file has %q, %v; want it untouched", name, text, err)
		}
	}
	// A mount that the kernel does not give up without force stays, and so does its pod's directory.
	within, err := os.ReadFile(filepath.Join(volume(1001, "mounted"), "canary"))
	if stays := err == nil && string(within) == "busy"; stays != refused {
		t.Errorf("the busy mount is there: %v, %v; the kernel refuses to unmount such: %v", stays, err, refused)
	}
	if refused && !strings.Contains(b.Log(), volume(1001, "mounted")+": it is in use by a process") {
		t.Error("the log does not say that the busy mount is in use")
	}
	if again := b.awaitRunning(t, "lives"); again.UID != lives.UID {
		t.Errorf("the running pod was replaced: %+v", again)
	}
}

// refusesBusy says whether the kernel refuses to unmount what a file is open in.
func refusesBusy(t *testing.T) bool {
	t.Helper()
	dir, point := t.TempDir(), t.TempDir()
	check.Fatal(t, syscall.Mount(dir, point, "", syscall.MS_BIND, ""))
	held, err := os.Create(filepath.Join(point, "held"))
	if err != nil {
		t.Fatal(err)
	}
	refused := syscall.Unmount(point, 0)
	err = held.Close()
	if refused != nil {
		err = errors.Join(err, syscall.Unmount(point, 0))
	}
	if err != nil {
		t.Fatal(err)
	}
	return errors.Is(refused, syscall.EBUSY)
}
