package deviceplugins

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/fsnotify/fsnotify"
	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/deviceplugins/plugintest"
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
	f := &finder{plugins: &Plugins{registry: dir, log: zerolog.Nop()}, found: map[string]*found{}}
	ctx, cancel := context.WithCancel(t.Context())
	check.Says(t, f.scan(ctx, notify), fsnotify.ErrClosed.Error(), "the directory that is not watched")
	if f.found[path] == nil {
		t.Error("the socket was not found")
	}
	cancel()
	f.all.Wait()
}

// TestNoInotify: where the user of the agent has no inotify instance left, the registry is read, and plugins register.
func TestNoInotify(t *testing.T) {
	root := t.TempDir()
	p := New(filepath.Join(root, "d"), root, zerolog.Nop(), nil)
	p.inotify = func() (*fsnotify.Watcher, error) { return nil, syscall.EMFILE }
	found := &plugintest.Plugin{Resource: "example.com/found"}
	check.Fatal(t, os.MkdirAll(p.registry, 0o750))
	check.Fatal(t, found.Serve(filepath.Join(p.registry, "p.sock")))
	defer found.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	events, ended := make(chan port.DevicePlugin, 1), make(chan error, 1)
	go func() { ended <- p.registrations(ctx, func(d port.DevicePlugin) { events <- d }) }()
	if d := check.Receive(t, events); d.Resource != "example.com/found" {
		t.Errorf("%+v", d)
	}
	cancel()
	check.Fatal(t, check.Receive(t, ended))
}
