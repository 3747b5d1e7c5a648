// Package hosttest is what the tests of supervisor/host have in common.
package hosttest

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
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

// WantMode looks at a path without following it.
func WantMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Error(err)
		return
	}
	check.Equal(t, info.Mode(), want, "%s has mode", path)
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
	check.Equal(t, port.KindOf(err), kind, "%v: is of kind", err)
	for _, text := range texts {
		check.Has(t, err.Error(), text, "%v: does not say %q", err, text)
	}
}

// Write writes a file, with the directories above it.
func Write(t *testing.T, path, text string) {
	t.Helper()
	check.Fatal(t, os.MkdirAll(filepath.Dir(path), 0o755))
	check.Fatal(t, os.WriteFile(path, []byte(text), 0o600))
}

// Mount mounts a file system in memory at point until the test ends.
func Mount(t *testing.T, name, point string) {
	t.Helper()
	check.Fatal(t, unix.Mount(name, point, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { check.Error(t, unix.Unmount(point, unix.MNT_DETACH)) })
}

// Bind mounts source at point until the test ends.
func Bind(t *testing.T, source, point string) (unmount func()) {
	t.Helper()
	check.Fatal(t, unix.Mount(source, point, "", unix.MS_BIND, ""))
	done := false
	unmount = func() {
		if !done {
			done = true
			check.Error(t, unix.Unmount(point, unix.MNT_DETACH))
		}
	}
	t.Cleanup(unmount)
	return unmount
}

// WithoutChown calls f where chown is refused, as by some servers.
func WithoutChown(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // it ends with the goroutine
		header, have := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
		err := unix.Capget(&header, &have[0])
		have[0].Effective &^= 1 << unix.CAP_CHOWN
		done <- errors.Join(err, unix.Capset(&header, &have[0]), f())
	}()
	return <-done
}
