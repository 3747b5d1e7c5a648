package deviceplugins

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/registry"
	"github.com/troupe-dev/troupe/supervisor/internal/unixsocket"
)

const requestLimit = 64 << 10

// Registrations implements port.DevicePlugins.
func (p *Plugins) Registrations(ctx context.Context, event func(port.DevicePlugin), done func(error)) {
	rescue.Do(ctx, func() error {
		if err := p.registrations(ctx, event); err != nil {
			return &port.Error{Kind: port.Other, Verb: "Register", Object: p.directory, Detail: err.Error()}
		}
		return &port.Error{Kind: port.Canceled, Verb: "Register", Object: p.directory, Detail: "the agent stopped listening"}
	}, port.Panicked("Register", p.directory), done)
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
	notify, unwatched := p.inotify()
	if unwatched == nil {
		defer notify.Close() //nolint:errcheck // only watched
	}
	listener, err := unixsocket.Listen(filepath.Join(p.directory, socket))
	if err != nil {
		return err
	}
	p.tell(event)
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(requestLimit), grpc.ConnectionTimeout(registry.CallLimit), grpc.WaitForHandlers(true),
		grpc.UnaryInterceptor(unixsocket.Contained))
	find := registry.New(registry.Config{
		Directory: p.registry, Log: p.log, Notify: notify, Unwatched: unwatched,
		Devices: event, DRA: p.drivers, CSI: p.csi, Valid: valid, Options: optionsOf,
	})
	api.RegisterRegistrationServer(server, registrar{ctx: ctx, plugins: p, event: event})
	ended := make(chan error, 1)
	rescue.Go(ctx, func() { ended <- server.Serve(listener) }, func(reason string) { ended <- errors.New(reason) })
	err = find.Run(ctx, ended)
	server.Stop()
	find.Wait()
	// The socket stays, as that of a kubelet: it shows the next agent that one was here (checkpoints.Devices).
	return err
}

// tell says which plugins are known, those of one resource in the order in which they registered.
func (p *Plugins) tell(event func(port.DevicePlugin)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetGone()
	for _, known := range p.known { // order-free: each resource on its own
		for _, plugin := range known {
			event(plugin)
		}
	}
}

// registrar answers plugins that register by themselves.
type registrar struct {
	api.UnimplementedRegistrationServer
	ctx     context.Context //nolint:containedctx // of all registrations
	plugins *Plugins
	event   func(port.DevicePlugin)
}

// Register implements api.RegistrationServer. As with a kubelet, a plugin serves before it registers: it is asked for
// its options (GetDevicePluginOptions) before it has the answer, and one that fails to say them is refused.
func (r registrar) Register(ctx context.Context, q *api.RegisterRequest) (*api.Empty, error) {
	if err := r.register(ctx, q); err != nil {
		r.plugins.log.Warn().Str("resource", registry.Bounded(q.GetResourceName())).
			Str("endpoint", registry.Bounded(q.GetEndpoint())).Str("error", registry.Bounded(err.Error())).
			Msg("device plugin registration rejected")
		return nil, status.Error(codes.Unknown, registry.Bounded(err.Error()))
	}
	return &api.Empty{}, nil
}

func (r registrar) register(ctx context.Context, q *api.RegisterRequest) error {
	if err := valid(q.GetResourceName(), q.GetVersion()); err != nil {
		return err
	}
	if q.GetEndpoint() == "" {
		return fmt.Errorf("the endpoint is empty: it must be a socket in %s", r.plugins.directory)
	}
	p := port.DevicePlugin{
		Resource: v1.ResourceName(q.GetResourceName()), Endpoint: filepath.Join(r.plugins.directory, q.GetEndpoint()),
	}
	until, turn, err := r.plugins.begin(r.ctx, p.Resource)
	if err != nil {
		return err
	}
	defer turn.cancel()
	defer context.AfterFunc(ctx, turn.cancel)() // the plugin does not wait any more
	if turn.again {
		select {
		case <-until.Done():
		case <-time.After(registry.Pace):
		}
	}
	if p.Options, err = optionsOf(until, p); err != nil {
		r.plugins.giveUp(p.Resource, turn)
		return err
	}
	if !r.plugins.learn(p, turn) {
		return fmt.Errorf("a later registration of %s has taken the place of this one", p.Resource)
	}
	r.event(p)
	return nil
}

// optionsOf asks a plugin for its options.
func optionsOf(ctx context.Context, p port.DevicePlugin) (none devices.Options, err error) {
	conn, err := registry.Dial(p.Endpoint)
	if err != nil {
		return none, err
	}
	defer conn.Close() //nolint:errcheck // nothing is left to lose
	o, err := api.NewDevicePluginClient(conn).GetDevicePluginOptions(ctx, &api.Empty{}, grpc.WaitForReady(true))
	if err != nil { // the words are those of a kubelet
		return none, fmt.Errorf("failed to get device plugin options: %w", err)
	}
	return options(o), nil
}

func options(o *api.DevicePluginOptions) devices.Options {
	return devices.Options{Preferred: o.GetGetPreferredAllocationAvailable(), PreStart: o.GetPreStartRequired()}
}
