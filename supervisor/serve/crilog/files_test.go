package crilog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestFollowTruncated: a log that somebody has emptied is followed from its beginning.
func TestFollowTruncated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	write(t, path, entry(0, "stdout", "F", strings.Repeat("long", 100)))
	var out collected
	var over atomic.Bool
	done := make(chan error, 1)
	go func() {
		done <- Read(t.Context(), Options{Path: path, Stdout: true, Follow: true, Watcher: &Watcher{},
			Running: func(context.Context) bool { return !over.Load() }}, &out)
	}()
	before := strings.Repeat("long", 100) + "\n"
	out.await(t, before)
	write(t, path, entry(1, "stdout", "F", "new"))
	out.await(t, before+"new\n")
	over.Store(true)
	check.Fatal(t, <-done)
}

// TestFollowReplaced: a log that a link takes the place of is not followed any more, and the link says why.
func TestFollowReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	write(t, path, entry(0, "stdout", "F", "old"))
	var out collected
	done := make(chan error, 1)
	go func() {
		done <- Read(t.Context(), Options{Path: path, Stdout: true, Follow: true, Watcher: &Watcher{},
			Running: func(context.Context) bool { return true }}, &out)
	}()
	out.await(t, "old\n")
	check.Fatal(t, os.Rename(path, path+".old"))
	check.Fatal(t, os.Symlink("/etc/hostname", path))
	check.Says(t, check.Receive(t, done), "symbolic link", "the reader ends")
	check.Equal(t, out.String(), "old\n", "what was read")
}

// TestTailEndsWithItsReader: the end of a long log is not looked for when nobody waits for it any more.
func TestTailEndsWithItsReader(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	leave()
	for _, name := range []string{"0.log", "0.log.20261121-110000.gz"} {
		path := filepath.Join(t.TempDir(), "0.log")
		write(t, path, "")
		write(t, filepath.Join(filepath.Dir(path), name), entry(0, "stdout", "F", "a"))
		begun := begins{}
		err := Read(gone, Options{Path: path, Stdout: true, Tail: n(5)}, &begun)
		check.Equal(t, errors.Is(err, context.Canceled), true, "%s: it ends: %v", name, err)
		check.Equal(t, begun.was, false, "%s: its reading began", name)
	}
}

// begins is a writer that knows whether reading has begun.
type begins struct {
	collected
	was bool
}

func (b *begins) Begin() error {
	b.was = true
	return nil
}

// TestFilesAreClosed: nothing of a log stays open, however many files it has.
func TestFilesAreClosed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "0.log")
	write(t, path+".20261121-110000.gz", entry(0, "stdout", "F", "a"))
	write(t, path+".20261121-120000", entry(1, "stdout", "F", "b"))
	write(t, path, entry(2, "stdout", "F", "c"))
	for _, tail := range []*int64{nil, n(1), n(2)} {
		var out collected
		check.Fatal(t, Read(t.Context(), Options{Path: path, Stdout: true, Tail: tail}, &out))
		if text := out.String(); !strings.HasSuffix("a\nb\nc\n", text) || text == "" {
			t.Errorf("read %q", text)
		}
	}
	open := check.Value(filepath.Glob("/proc/self/fd/*"))(t)
	for _, fd := range open {
		if name, err := os.Readlink(fd); err == nil && strings.HasPrefix(name, dir) {
			t.Errorf("%s is still open", name)
		}
	}
}
