package unixsocket_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/supervisor/unixsocket"
)

func listen(t *testing.T, path string) *unixsocket.Listener {
	t.Helper()
	l, err := unixsocket.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestOneAfterAnother: a stale socket is replaced, and nobody removes another's.
func TestOneAfterAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first := listen(t, path)
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	second := listen(t, path)
	if err := first.Remove(); err != nil {
		t.Error(err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the second's socket is gone: %v", err)
	}
	conn.Close()
	for range 2 { // the second time there is nothing
		if err := second.Remove(); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestPaths(t *testing.T) {
	dir := t.TempDir()
	long := filepath.Join(dir, strings.Repeat("d", 100), strings.Repeat("e", 100))
	if err := os.MkdirAll(long, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := listen(t, filepath.Join(long, "s")).Remove(); err != nil {
		t.Error(err)
	}
	if _, err := unixsocket.Listen(filepath.Join(dir, "none", "s")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v in a directory that is not there", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := unixsocket.Listen(filepath.Join(dir, "taken")); err == nil {
		t.Error("a directory is replaced")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
}
