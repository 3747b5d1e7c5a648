package deviceplugins

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/fsnotify/fsnotify"
	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/plugintest"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestNoInotify: where the user of the agent has no inotify instance left, the registry is read, and plugins register.
func TestNoInotify(t *testing.T) {
	root := t.TempDir()
	p := New(filepath.Join(root, "d"), root, zerolog.Nop())
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
