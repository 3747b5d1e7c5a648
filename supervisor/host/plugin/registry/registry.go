// Package registry finds the plugins and drivers of this machine that want to be found, by their sockets in a directory
// (plugin registration API v1): device plugins, DRA drivers and CSI drivers. It also has what calls of all of them have
// in common: connections, errors, texts of a bounded length, and a pace for what they stream.
//
//	socket appears ──GetInfo──► accepted ──told──► NotifyRegistrationStatus     socket goes ──► told that it is gone
//	                    └─────► refused  ─────────► NotifyRegistrationStatus
package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registry "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/rescue"
)

// Directory is that of plugins that want to be found, below the root directory.
const Directory = "plugins_registry"

const (
	// CallLimit bounds a call of a plugin that registers.
	CallLimit = 10 * time.Second
	// firstRetry and lastRetry are the times after which a plugin in the registry is asked again that did not answer.
	firstRetry, lastRetry = time.Second, time.Minute
	// rescan is when the registry is read again without a notice: notices may be lost.
	rescan = 10 * time.Second
)

// Config is what a registry needs.
type Config struct {
	// Directory is where the sockets are. It exists.
	Directory string
	Log       zerolog.Logger
	// Notify tells of changes in the directory, and Unwatched says why nothing does: a user may have only so many
	// inotify instances. The registry is read every rescan all the same.
	Notify    *fsnotify.Watcher
	Unwatched error
	// Devices, DRA and CSI are told of plugins that were found, and of those that are gone. Without DRA or CSI such
	// drivers are refused.
	Devices func(port.DevicePlugin)
	DRA     func(port.DRADriver)
	CSI     func(port.CSIDriver)
	// Valid says why a device plugin can't be registered, and Options asks it for its options.
	Valid   func(name string, versions ...string) error
	Options func(context.Context, port.DevicePlugin) (devices.Options, error)
}

// Registry finds the plugins of a directory.
type Registry struct {
	Config
	// found are the sockets that are there, by path.
	found map[string]*found
	// unread is what the last scan could not read of the registry, by path.
	unread map[string]bool
	// leaving are closed once it was said that a socket is gone. A plugin that has restarted is met after that: said in
	// the other order, it would be gone for good.
	leaving []<-chan struct{}
	all     sync.WaitGroup
}

// New makes a registry, which finds nothing before Run.
func New(c Config) *Registry { return &Registry{Config: c, found: map[string]*found{}} }

// found is one socket of the registry.
type found struct {
	made   os.FileInfo
	cancel context.CancelFunc
	ended  chan struct{}
	// registered is what registered, nil until it has, and for one that was refused. Read after ended.
	registered *registered
}

// registered is a plugin of the registry: of devices, a DRA driver, or a CSI driver.
type registered struct {
	// what it is for people, and its name, with the key that it has in the log.
	what, key, name string
	// tell tells that it is there, or gone.
	tell func(gone bool)
}

// Run finds plugins until ctx ends, or something else has with an error. Wait waits for the calls under way.
func (f *Registry) Run(ctx context.Context, ended <-chan error) error {
	tick := time.NewTicker(rescan)
	defer tick.Stop()
	defer func() {
		for _, s := range f.found { // order-free: each on its own
			s.cancel()
		}
	}()
	var changed <-chan fsnotify.Event
	var missed <-chan error
	if f.Unwatched == nil {
		changed, missed = f.Notify.Events, f.Notify.Errors
	}
	failed := false
	for {
		err := f.scan(ctx)
		if err != nil && !failed {
			f.Log.Warn().Str("directory", f.Directory).Str("error", err.Error()).Dur("retry", rescan).
				Msg("cannot read or watch the plugin registry directory; it is read periodically; device plugins that " +
					"call Register are served")
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case <-tick.C:
		case <-changed:
		case <-missed: //nolint:errcheck // some were missed: the registry is read again
		}
	}
}

// Wait waits for what is under way after Run: each call of a plugin is cancelled, and each that is gone is told of.
func (f *Registry) Wait() { f.all.Wait() }

// scan compares the registry with what was found. It goes on where a directory can't be watched, because the machine
// has no watches left or the directory has just gone, and then says so.
func (f *Registry) scan(ctx context.Context) error {
	now, unread := map[string]os.FileInfo{}, map[string]bool{}
	unwatched := f.Unwatched
	root := f.Directory + "/" // it may be a link
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			if f.Unwatched == nil {
				unwatched = cmp.Or(unwatched, f.Notify.Add(path))
			}
			return nil
		}
		var info os.FileInfo
		if err == nil {
			info, err = socketAt(path, e)
		}
		switch {
		case info != nil:
			now[path] = info
			return nil
		case err == nil || errors.Is(err, fs.ErrNotExist):
			return nil
		case path == root:
			return err
		}
		f.skip(path, err, unread)
		return nil
	})
	if err != nil {
		return err
	}
	f.unread = unread
	for path, s := range f.found { // order-free: each on its own
		if info := now[path]; info == nil && !f.skipped(path) || info != nil && !same(info, s.made) {
			delete(f.found, path)
			f.leaving = append(slices.DeleteFunc(f.leaving, closed), f.lost(path, s))
		}
	}
	for path, info := range now { // order-free: each on its own
		if f.found[path] == nil {
			c, cancel := context.WithCancel(ctx)
			s := &found{made: info, cancel: cancel, ended: make(chan struct{})}
			f.found[path] = s
			before := slices.Clone(f.leaving)
			f.all.Go(func() {
				defer rescue.Call(ctx, f.panicked(path))
				defer close(s.ended)
				for _, said := range before {
					<-said
				}
				f.meet(c, path, s)
			})
		}
	}
	return unwatched
}

// socketAt is the socket that an entry of the registry is, or is a link to; nil if it is none.
func socketAt(path string, e fs.DirEntry) (os.FileInfo, error) {
	if e.Type()&(fs.ModeSocket|fs.ModeSymlink) == 0 || strings.HasPrefix(e.Name(), ".") {
		return nil, nil
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode()&fs.ModeSocket == 0 {
		return nil, err
	}
	return info, nil
}

// skip leaves out what can't be read of the registry, and says so once.
func (f *Registry) skip(path string, err error, unread map[string]bool) {
	if !f.unread[path] && !unread[path] {
		f.Log.Warn().Str("path", path).Str("error", err.Error()).Dur("retry", rescan).
			Msg("cannot read a part of the plugin registry directory; plugins that registered there stay registered meanwhile")
	}
	unread[path] = true
}

// skipped says whether a socket may be there and can't be seen.
func (f *Registry) skipped(path string) bool {
	for ; len(path) > len(f.Directory); path = filepath.Dir(path) {
		if f.unread[path] {
			return true
		}
	}
	return false
}

// panicked says that nothing more is done about a socket, until its plugin makes it again.
func (f *Registry) panicked(path string) func(string) {
	return func(reason string) {
		f.Log.Error().Str("socket", path).Str("error", reason).
			Msg("panic while a plugin was registered: restart the plugin to try again")
	}
}

// same says whether a socket is the one that it was. The file system may give the number of a removed file to the next.
func same(a, b os.FileInfo) bool { return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// lost says that a socket is gone, once its plugin is not met any more. It gives what is closed after that.
func (f *Registry) lost(path string, s *found) <-chan struct{} {
	said := make(chan struct{})
	s.cancel()
	f.all.Go(func() {
		defer rescue.Call(context.Background(), f.panicked(path))
		defer close(said)
		<-s.ended
		if r := s.registered; r != nil {
			f.Log.Info().Str("socket", path).Str(r.key, r.name).Msg(r.what + " unregistered: its socket was removed")
			r.tell(true)
		}
	})
	return said
}

// errUnnoticed says that a plugin is registered, and has not taken the notice of that.
var errUnnoticed = errors.New("the plugin did not take the notice of its registration")

// meet asks the plugin behind a socket what it is, until it has said so and knows that it is registered.
func (f *Registry) meet(ctx context.Context, path string, s *found) {
	wait, ask := firstRetry, f.ask
	for {
		got, err := rescue.Try(ctx, func() (*registered, error) { return ask(ctx, path) })
		if got != nil {
			s.registered = got
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		if errors.Is(err, errUnnoticed) { // it is served meanwhile
			ask = f.noticeAgain
		}
		f.Log.Warn().Str("socket", path).Str("error", Bounded(err.Error())).Dur("retry", wait).
			Msg("cannot register a plugin; retrying")
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, lastRetry)
	}
}

// reached has a plugin's registration asked, within CallLimit.
func reached(
	ctx context.Context, path string, do func(context.Context, registry.RegistrationClient) (*registered, error),
) (*registered, error) {
	ctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	conn, err := Dial(path)
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // nothing is left to lose
	return do(ctx, registry.NewRegistrationClient(conn))
}

// ask asks a plugin once.
func (f *Registry) ask(ctx context.Context, path string) (*registered, error) {
	return reached(ctx, path, func(ctx context.Context, c registry.RegistrationClient) (*registered, error) {
		return f.register(ctx, path, c)
	})
}

// register asks a plugin what it is, and tells it what became of that.
func (f *Registry) register(
	ctx context.Context, path string, c registry.RegistrationClient,
) (*registered, error) {
	info, err := c.GetInfo(ctx, &registry.InfoRequest{})
	if err != nil {
		return nil, err
	}
	got, again, why := f.accept(ctx, path, info)
	answer := &registry.RegistrationStatus{PluginRegistered: why == nil}
	if why == nil {
		got.tell(false)
	} else {
		answer.Error = why.Error()
		f.Log.Warn().Str("socket", path).Str("type", Bounded(info.GetType())).Str("name", Bounded(info.GetName())).
			Str("error", why.Error()).Msg("plugin registration rejected")
	}
	if err := notice(ctx, c, answer); err != nil {
		if why == nil {
			return got, err
		}
		f.Log.Warn().Str("socket", path).Str("error", Bounded(err.Error())).
			Msg("cannot notify a plugin that its registration was rejected")
	}
	if again {
		return nil, why
	}
	return got, nil
}

// notice tells a plugin what became of its registration. One that does not want to know need not.
func notice(ctx context.Context, c registry.RegistrationClient, answer *registry.RegistrationStatus) error {
	_, err := c.NotifyRegistrationStatus(ctx, answer)
	if err == nil || status.Code(err) == codes.Unimplemented {
		return nil
	}
	return fmt.Errorf("%w: %w", errUnnoticed, err)
}

// noticeAgain is for a plugin that is registered, and did not take the notice.
func (f *Registry) noticeAgain(ctx context.Context, path string) (*registered, error) {
	return reached(ctx, path, func(ctx context.Context, c registry.RegistrationClient) (*registered, error) {
		return nil, notice(ctx, c, &registry.RegistrationStatus{PluginRegistered: true})
	})
}
