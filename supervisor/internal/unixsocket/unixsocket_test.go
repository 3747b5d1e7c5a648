package unixsocket_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/supervisor/internal/unixsocket"
	"github.com/troupe-dev/troupe/tests/check"
)

func listen(t *testing.T, path string) *unixsocket.Listener {
	t.Helper()
	l := check.Value(unixsocket.Listen(path))(t)
	t.Cleanup(func() { l.Close() })
	return l
}

// TestOneAfterAnother: a stale socket is replaced, and nobody removes another's.
func TestOneAfterAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first := listen(t, path)
	check.Equal(t, check.Value(os.Lstat(path))(t).Mode(), os.ModeSocket|0o600, "it")
	second := listen(t, path)
	check.Error(t, first.Remove())
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the second's socket is gone: %v", err)
	}
	conn.Close()
	for range 2 { // the second time there is nothing
		check.Error(t, second.Remove())
	}
	check.None(t, check.Value(os.ReadDir(filepath.Dir(path)))(t), "left")
}

func TestPaths(t *testing.T) {
	dir := t.TempDir()
	long := filepath.Join(dir, strings.Repeat("d", 100), strings.Repeat("e", 100))
	check.Fatal(t, os.MkdirAll(long, 0o700))
	check.Error(t, listen(t, filepath.Join(long, "s")).Remove())
	if _, err := unixsocket.Listen(filepath.Join(dir, "none", "s")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v in a directory that is not there", err)
	}
	check.Fatal(t, os.Mkdir(filepath.Join(dir, "taken"), 0o700))
	check.Fails(t, check.Err(unixsocket.Listen(filepath.Join(dir, "taken"))), "a directory is replaced")
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
}
