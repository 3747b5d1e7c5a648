// Package hosttest is what the tests of supervisor/host have in common.
package hosttest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/port"
)

// Need skips a test whose machine lacks something: missing says why, or is nil. With CI=true in the environment the test
// fails instead: there, nothing is skipped.
func Need(t testing.TB, what string, missing error) {
	t.Helper()
	switch {
	case missing == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("needs %s, and in CI nothing is skipped: %v", what, missing)
	default:
		t.Skipf("needs %s: %v", what, missing)
	}
}

// NeedRoot is Need for what only root can do.
func NeedRoot(t testing.TB) {
	t.Helper()
	var missing error
	if os.Geteuid() != 0 {
		missing = os.ErrPermission
	}
	Need(t, "root, to mount", missing)
}

// NeedFUSE is Need for a file system of the test's own, which can hang.
func NeedFUSE(t testing.TB) {
	t.Helper()
	NeedRoot(t)
	_, err := os.Stat("/dev/fuse")
	Need(t, "FUSE, to have a file system hang", err)
}

// Wait makes a call of a port and waits for its answer.
func Wait(f func(func(error))) error {
	c := make(chan error, 1)
	f(func(err error) { c <- err })
	return <-c
}

// Until waits for a condition.
func Until(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for tick := time.NewTicker(10 * time.Millisecond); !is(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// WantMode looks at a path without following it.
func WantMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Error(err)
		return
	}
	if info.Mode() != want {
		t.Errorf("%s has mode %s, want %s", path, info.Mode(), want)
	}
}

// WantGone: nothing is at path.
func WantGone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("%s is there: %v", path, err)
	}
}

// WantError compares the kind of an error of a port, and what its text contains.
func WantError(t *testing.T, err error, kind port.ErrorKind, texts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %q", texts)
		return
	}
	if got := port.KindOf(err); got != kind {
		t.Errorf("%v: is of kind %s, want %s", err, got, kind)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%v: does not say %q", err, text)
		}
	}
}

// Write writes a file, with the directories above it.
func Write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Mount mounts a file system in memory at point until the test ends.
func Mount(t *testing.T, name, point string) {
	t.Helper()
	if err := unix.Mount(name, point, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// Bind mounts source at point until the test ends.
func Bind(t *testing.T, source, point string) (unmount func()) {
	t.Helper()
	if err := unix.Mount(source, point, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	done := false
	unmount = func() {
		if !done {
			done = true
			if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(unmount)
	return unmount
}
