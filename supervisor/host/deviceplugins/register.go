package deviceplugins

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/unixsocket"
)

const (
	requestLimit = 64 << 10
	// callLimit bounds a call of a plugin that registers.
	callLimit = 10 * time.Second
	// firstRetry and lastRetry are the times after which a plugin in the registry is asked again that did not answer.
	firstRetry, lastRetry = time.Second, time.Minute
	// rescan is when the registry is read again without a notice: notices may be lost.
	rescan = 10 * time.Second
)

// Registrations implements port.DevicePlugins.
func (p *Plugins) Registrations(ctx context.Context, event func(port.DevicePlugin), done func(error)) {
	go func() {
		if err := p.registrations(ctx, event); err != nil {
			done(&port.Error{Kind: port.Other, Verb: "Register", Object: p.directory, Detail: err.Error()})
			return
		}
		done(&port.Error{Kind: port.Canceled, Verb: "Register", Object: p.directory, Detail: "the agent stopped listening"})
	}()
}

func (p *Plugins) registrations(ctx context.Context, event func(port.DevicePlugin)) error {
	for _, dir := range [...]string{p.directory, p.registry} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return err
		}
	}
	if err := p.clean(); err != nil {
		return err
	}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer notify.Close() //nolint:errcheck // only watched
	listener, err := unixsocket.Listen(filepath.Join(p.directory, socket))
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.forgetGone()
	for _, known := range p.known { // order-free: each on its own
		event(known)
	}
	p.mu.Unlock()
	server := grpc.NewServer(grpc.MaxRecvMsgSize(requestLimit), grpc.ConnectionTimeout(callLimit))
	find := &finder{plugins: p, event: event, found: map[string]*found{}}
	api.RegisterRegistrationServer(server, registrar{ctx: ctx, finder: find})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	err = find.run(ctx, notify, ended)
	server.Stop()
	find.all.Wait()
	// The socket stays, as that of a kubelet: it shows the next agent that one was here (checkpoints.Devices).
	return err
}

// registrar answers plugins that register by themselves.
type registrar struct {
	api.UnimplementedRegistrationServer
	ctx context.Context //nolint:containedctx // of all that follows from registrations
	*finder
}

// Register implements api.RegistrationServer.
func (r registrar) Register(_ context.Context, q *api.RegisterRequest) (*api.Empty, error) {
	err, name := valid(q.GetResourceName(), q.GetVersion()), q.GetEndpoint()
	if err == nil && (name != filepath.Base(name) || strings.HasPrefix(name, ".") || name == socket) {
		err = fmt.Errorf("endpoint %q must be the name of a socket in %s", Bounded(name), r.plugins.directory)
	}
	p := port.DevicePlugin{
		Resource: v1.ResourceName(q.GetResourceName()), Endpoint: filepath.Join(r.plugins.directory, name),
		Options: options(q.GetOptions()),
	}
	var (
		ctx  context.Context
		turn *turn
	)
	if err == nil {
		ctx, turn, err = r.plugins.begin(r.ctx, p.Resource)
	}
	if err != nil {
		r.plugins.log.Warn().Str("resource", Bounded(q.GetResourceName())).Str("endpoint", Bounded(name)).
			Str("error", err.Error()).Msg("a device plugin can't register")
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	r.all.Go(func() { r.registered(ctx, p, turn) }) // a plugin may wait for the answer before it serves
	return &api.Empty{}, nil
}

// registered tells of a plugin, unless it, or another one of its resource, registers again meanwhile.
func (r registrar) registered(ctx context.Context, p port.DevicePlugin, turn *turn) {
	defer turn.cancel()
	if turn.again {
		select {
		case <-ctx.Done():
		case <-time.After(pace):
		}
	}
	var err error
	p.Options, err = optionsOf(ctx, p)
	if !r.plugins.learn(p, turn) {
		return
	}
	if err != nil {
		r.plugins.log.Warn().Str("resource", string(p.Resource)).Str("error", Bounded(err.Error())).
			Msg("the device plugin did not say its options; those of its registration count")
	}
	r.event(p)
}

// optionsOf asks a plugin for its options (GetDevicePluginOptions), as a kubelet always does. One that does not
// implement the call has those with which it registered. They come with an error, too.
func optionsOf(ctx context.Context, p port.DevicePlugin) (devices.Options, error) {
	conn, err := Dial(p.Endpoint)
	if err != nil {
		return p.Options, err
	}
	defer conn.Close() //nolint:errcheck // nothing is left to lose
	o, err := api.NewDevicePluginClient(conn).GetDevicePluginOptions(ctx, &api.Empty{}, grpc.WaitForReady(true))
	switch {
	case status.Code(err) == codes.Unimplemented:
		return p.Options, nil
	case err != nil:
		return p.Options, fmt.Errorf("GetDevicePluginOptions: %w", err)
	}
	return options(o), nil
}

func options(o *api.DevicePluginOptions) devices.Options {
	return devices.Options{Preferred: o.GetGetPreferredAllocationAvailable(), PreStart: o.GetPreStartRequired()}
}
