package registry

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"github.com/fsnotify/fsnotify"
	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestFoundWithoutWatch: where the machine has no watches left, plugins are found all the same.
func TestFoundWithoutWatch(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.sock")
	l := check.Value(net.Listen("unix", path))(t)
	defer l.Close()
	notify := check.Value(fsnotify.NewWatcher())(t)
	check.Fatal(t, notify.Close()) // it watches nothing any more
	f := New(Config{Directory: dir, Log: zerolog.Nop(), Notify: notify})
	ctx, cancel := context.WithCancel(t.Context())
	check.Says(t, f.scan(ctx), fsnotify.ErrClosed.Error(), "the directory that is not watched")
	if f.found[path] == nil {
		t.Error("the socket was not found")
	}
	cancel()
	f.Wait()
}
