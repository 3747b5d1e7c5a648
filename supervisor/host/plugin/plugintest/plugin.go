// Package plugintest has a device plugin for tests, behind a real socket.
package plugintest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registry "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Plugin is a device plugin. Its fields are set before Serve. Containers with its devices have the variable DEVICES,
// unless Answer is set.
type Plugin struct {
	api.UnimplementedDevicePluginServer
	registry.UnimplementedRegistrationServer
	Resource string
	Options  *api.DevicePluginOptions
	// OptionsError, if set, is asked before each answer with the options.
	OptionsError func() error
	// Nodes are the NUMA nodes of devices.
	Nodes map[string][]int64
	// Answer, if set, is the answer to Allocate.
	Answer func(ids []string) (*api.AllocateResponse, error)
	// Prefers, if set, is the answer to GetPreferredAllocation; PreferAnswer, if set, is asked instead for all of it.
	Prefers      func(*api.ContainerPreferredAllocationRequest) []string
	PreferAnswer func(*api.ContainerPreferredAllocationRequest) (*api.PreferredAllocationResponse, error)
	// Started, if set, is the answer to PreStartContainer.
	Started func() error
	// Watched, if set, is asked after each list that is sent: an error ends the stream.
	Watched func() error
	// Info, if set, is what the plugin says of itself to the owner of the registry.
	Info *registry.PluginInfo
	// NoticeError, if set, is asked before each notice of the registry's owner is taken.
	NoticeError func() error
	// Spoil, if set, changes each encoded message that the plugin sends.
	Spoil func([]byte) []byte

	mu       sync.Mutex
	devices  []*api.Device
	changed  chan struct{}
	server   *grpc.Server
	calls    []string
	notified *registry.RegistrationStatus
	answered int
}

// List sets the devices; names that begin with - are not healthy.
func (p *Plugin) List(names ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.devices = nil
	for _, n := range names {
		d := &api.Device{ID: n, Health: api.Healthy}
		if n[0] == '-' {
			d = &api.Device{ID: n[1:], Health: api.Unhealthy}
		}
		for _, node := range p.Nodes[d.ID] {
			if d.Topology == nil {
				d.Topology = &api.TopologyInfo{}
			}
			d.Topology.Nodes = append(d.Topology.Nodes, &api.NUMANode{ID: node})
		}
		p.devices = append(p.devices, d)
	}
	p.listed()
}

// ListAll sets the devices.
func (p *Plugin) ListAll(all []*api.Device) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.devices = all
	p.listed()
}

// listed tells of other devices. With mu.
func (p *Plugin) listed() {
	if p.changed != nil {
		close(p.changed)
	}
	p.changed = make(chan struct{})
}

// Serve listens at a path.
func (p *Plugin) Serve(path string) error {
	l, err := net.Listen("unix", path) //nolint:noctx // a socket of a test
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	p.server = grpc.NewServer(Spoiled(p.Spoil))
	api.RegisterDevicePluginServer(p.server, p)
	registry.RegisterRegistrationServer(p.server, p)
	go p.server.Serve(l) //nolint:errcheck // it ends with Stop
	return nil
}

// Stop ends the plugin at once.
func (p *Plugin) Stop() {
	p.mu.Lock()
	s := p.server
	p.mu.Unlock()
	if s != nil {
		s.Stop()
	}
}

// Register registers the plugin with the agent whose directory of device plugins is dir. It serves in this directory,
// at the name of endpoint.
func (p *Plugin) Register(ctx context.Context, dir, endpoint string, options ...grpc.CallOption) error {
	conn, err := grpc.NewClient("unix://"+filepath.Join(dir, "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	_, err = api.NewRegistrationClient(conn).Register(ctx, &api.RegisterRequest{
		Version: api.Version, Endpoint: endpoint, ResourceName: p.Resource, Options: p.Options,
	}, options...)
	return errors.Join(err, conn.Close())
}

// Calls are the calls that the plugin got.
func (p *Plugin) Calls() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// Answered is how often the plugin was asked for its options and has answered.
func (p *Plugin) Answered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answered
}

// Notified is what the registry's owner said last.
func (p *Plugin) Notified() *registry.RegistrationStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.notified
}

func (p *Plugin) called(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, fmt.Sprintf(format, args...))
}

// GetInfo implements registry.RegistrationServer.
func (p *Plugin) GetInfo(context.Context, *registry.InfoRequest) (*registry.PluginInfo, error) {
	if p.Info != nil {
		return p.Info, nil
	}
	return &registry.PluginInfo{
		Type: registry.DevicePlugin, Name: p.Resource, SupportedVersions: []string{api.Version},
	}, nil
}

// NotifyRegistrationStatus implements registry.RegistrationServer.
func (p *Plugin) NotifyRegistrationStatus(
	_ context.Context, s *registry.RegistrationStatus,
) (*registry.RegistrationStatusResponse, error) {
	if p.NoticeError != nil {
		if err := p.NoticeError(); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notified = s
	return &registry.RegistrationStatusResponse{}, nil
}

// GetDevicePluginOptions implements api.DevicePluginServer.
func (p *Plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	defer func() {
		p.mu.Lock()
		p.answered++
		p.mu.Unlock()
	}()
	if p.OptionsError != nil {
		if err := p.OptionsError(); err != nil {
			return nil, err
		}
	}
	if p.Options == nil {
		return &api.DevicePluginOptions{}, nil
	}
	return p.Options, nil
}

// ListAndWatch implements api.DevicePluginServer.
func (p *Plugin) ListAndWatch(_ *api.Empty, s grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	for {
		p.mu.Lock()
		all, changed := p.devices, p.changed
		p.mu.Unlock()
		if err := s.Send(&api.ListAndWatchResponse{Devices: all}); err != nil {
			return err
		}
		if p.Watched != nil {
			if err := p.Watched(); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-s.Context().Done():
			return nil
		}
	}
}

// GetPreferredAllocation implements api.DevicePluginServer.
func (p *Plugin) GetPreferredAllocation(
	_ context.Context, q *api.PreferredAllocationRequest,
) (*api.PreferredAllocationResponse, error) {
	r := &api.PreferredAllocationResponse{}
	for _, c := range q.ContainerRequests {
		p.called("prefer %d of %v with %v", c.AllocationSize, c.AvailableDeviceIDs, c.MustIncludeDeviceIDs)
		if p.PreferAnswer != nil {
			return p.PreferAnswer(c)
		}
		r.ContainerResponses = append(r.ContainerResponses,
			&api.ContainerPreferredAllocationResponse{DeviceIDs: p.Prefers(c)})
	}
	return r, nil
}

// Allocate implements api.DevicePluginServer.
func (p *Plugin) Allocate(_ context.Context, q *api.AllocateRequest) (*api.AllocateResponse, error) {
	r := &api.AllocateResponse{}
	for _, c := range q.ContainerRequests {
		p.called("allocate %v", c.DevicesIds)
		if p.Answer != nil {
			return p.Answer(c.DevicesIds)
		}
		r.ContainerResponses = append(r.ContainerResponses, &api.ContainerAllocateResponse{
			Envs: map[string]string{"DEVICES": fmt.Sprint(c.DevicesIds)},
		})
	}
	return r, nil
}

// PreStartContainer implements api.DevicePluginServer.
func (p *Plugin) PreStartContainer(
	_ context.Context, q *api.PreStartContainerRequest,
) (*api.PreStartContainerResponse, error) {
	p.called("start %v", q.DevicesIds)
	if p.Started != nil {
		return &api.PreStartContainerResponse{}, p.Started()
	}
	return &api.PreStartContainerResponse{}, nil
}
