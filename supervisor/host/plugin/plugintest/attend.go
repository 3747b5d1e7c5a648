package plugintest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Attend serves the plugin in an agent's directory of device plugins, at the name of endpoint, and registers it. It
// does both again whenever an agent begins to listen there, as plugins have to: an agent that starts removes their
// sockets.
// It ends with ctx, or with an error.
func (p *Plugin) Attend(ctx context.Context, dir, endpoint string) error {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer notify.Close() //nolint:errcheck // nothing is lost
	defer p.Stop()
	if err := notify.Add(dir); err != nil {
		return err
	}
	agent := filepath.Join(dir, "kubelet.sock")
	_, err = os.Stat(agent)
	for listens := err == nil; ; {
		if listens {
			if err := p.serveAgain(ctx, dir, endpoint); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-notify.Errors:
			return err
		case e := <-notify.Events:
			listens = e.Name == agent && e.Has(fsnotify.Create)
		}
	}
}

// serveAgain serves and registers. An agent that ends meanwhile is no error: the next one is registered with.
func (p *Plugin) serveAgain(ctx context.Context, dir, endpoint string) error {
	p.Stop()
	path := filepath.Join(dir, endpoint)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := p.Serve(path); err != nil {
		return err
	}
	err := p.Register(ctx, dir, endpoint, grpc.WaitForReady(true))
	if ctx.Err() != nil || status.Code(err) == codes.Unavailable {
		return nil
	}
	return err
}
