// Package drivertest has a driver of dynamic resource allocation for tests, behind real sockets.
package drivertest

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"

	"google.golang.org/grpc"
	health "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	api "k8s.io/kubelet/pkg/apis/dra/v1"
	beta "k8s.io/kubelet/pkg/apis/dra/v1beta1"
	registry "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/troupe-dev/troupe/supervisor/host/plugin/plugintest"
)

// Driver is a DRA driver. Its fields are set before Serve.
type Driver struct {
	api.UnimplementedDRAPluginServer
	registry.UnimplementedRegistrationServer
	health.UnimplementedDRAResourceHealthServer
	Name string
	// Services are the versions that it says it supports, v1 if there are none. Beta: it serves v1beta1.
	Services []string
	Beta     bool
	// HealthV1: its health service is v1, and not v1alpha1.
	HealthV1 bool
	// Devices are those that a claim gets.
	Devices func(*api.Claim) (*api.NodePrepareResourceResponse, error)
	// Answer, if set, is asked instead for the answer to a whole call.
	Answer func([]*api.Claim) (*api.NodePrepareResourcesResponse, error)
	// Unprepared, if set, is asked for the answer of a claim that is unprepared.
	Unprepared func(*api.Claim) string
	// Watched, if set, is asked after each message about devices: an error ends the stream.
	Watched func() error
	// Spoil, if set, changes each encoded message that the driver sends of its devices.
	Spoil func([]byte) []byte

	mu       sync.Mutex
	endpoint string
	servers  []*grpc.Server
	// listeners are those of servers.
	listeners []*net.UnixListener
	calls     []string
	notified  *registry.RegistrationStatus
	// health is what is said of devices, nil for a driver that says nothing. changed is closed when it changes.
	health  *health.NodeWatchResourcesResponse
	changed chan struct{}
}

// Says has the driver say how its devices are. The first time is before Serve.
func (d *Driver) Says(all ...*health.DeviceHealth) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changed != nil {
		close(d.changed)
	}
	d.health, d.changed = &health.NodeWatchResourcesResponse{Devices: all}, make(chan struct{})
}

// NodeWatchResources implements health.DRAResourceHealthServer.
func (d *Driver) NodeWatchResources(
	_ *health.NodeWatchResourcesRequest, to grpc.ServerStreamingServer[health.NodeWatchResourcesResponse],
) error {
	for {
		d.mu.Lock()
		says, changed := d.health, d.changed
		d.mu.Unlock()
		if err := to.Send(says); err != nil {
			return err
		}
		if d.Watched != nil {
			if err := d.Watched(); err != nil {
				return err
			}
		}
		select {
		case <-to.Context().Done():
			return to.Context().Err()
		case <-changed:
		}
	}
}

// Serve listens at two paths: of the registry, and of the driver's own socket.
func (d *Driver) Serve(registryPath, path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endpoint = path
	own, registration := grpc.NewServer(plugintest.Spoiled(d.Spoil)), grpc.NewServer()
	if d.Beta {
		beta.RegisterDRAPluginServer(own, beta.V1ServerWrapper{DRAPluginServer: d})
	} else {
		api.RegisterDRAPluginServer(own, d)
	}
	if d.health != nil {
		desc := health.DRAResourceHealth_ServiceDesc
		if d.HealthV1 { // its messages have the same encoding
			desc.ServiceName = "v1.DRAResourceHealth"
		}
		own.RegisterService(&desc, d)
	}
	registry.RegisterRegistrationServer(registration, d)
	for _, s := range []struct {
		path   string
		server *grpc.Server
	}{{path, own}, {registryPath, registration}} {
		_ = os.Remove(s.path)                // of a driver before it
		l, err := net.Listen("unix", s.path) //nolint:noctx // a socket of a test
		if err != nil {
			return err
		}
		d.listeners = append(d.listeners, l.(*net.UnixListener))
		d.servers = append(d.servers, s.server)
		go s.server.Serve(l) //nolint:errcheck // it ends with Stop
	}
	return nil
}

// Stop ends the driver at once.
func (d *Driver) Stop() {
	d.mu.Lock()
	servers := d.servers
	d.servers, d.listeners = nil, nil
	d.mu.Unlock()
	for _, s := range servers {
		s.Stop()
	}
}

// Kill ends the driver without its sockets being removed.
func (d *Driver) Kill() {
	d.mu.Lock()
	for _, l := range d.listeners {
		l.SetUnlinkOnClose(false)
	}
	d.mu.Unlock()
	d.Stop()
}

// Calls are the calls that the driver got: "prepare NAMESPACE/NAME".
func (d *Driver) Calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.calls)
}

// Notified is what the registry's owner said last.
func (d *Driver) Notified() *registry.RegistrationStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.notified
}

func (d *Driver) called(verb string, c *api.Claim) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, fmt.Sprintf("%s %s/%s", verb, c.GetNamespace(), c.GetName()))
}

// GetInfo implements registry.RegistrationServer.
func (d *Driver) GetInfo(context.Context, *registry.InfoRequest) (*registry.PluginInfo, error) {
	services := d.Services
	if len(services) == 0 {
		services = []string{api.DRAPluginService}
	}
	return &registry.PluginInfo{
		Type: registry.DRAPlugin, Name: d.Name, Endpoint: d.endpoint, SupportedVersions: services,
	}, nil
}

// NotifyRegistrationStatus implements registry.RegistrationServer.
func (d *Driver) NotifyRegistrationStatus(
	_ context.Context, s *registry.RegistrationStatus,
) (*registry.RegistrationStatusResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notified = s
	return &registry.RegistrationStatusResponse{}, nil
}

// NodePrepareResources implements api.DRAPluginServer.
func (d *Driver) NodePrepareResources(
	_ context.Context, q *api.NodePrepareResourcesRequest,
) (*api.NodePrepareResourcesResponse, error) {
	out := &api.NodePrepareResourcesResponse{Claims: map[string]*api.NodePrepareResourceResponse{}}
	for _, c := range q.GetClaims() {
		d.called("prepare", c)
		if d.Answer != nil {
			continue
		}
		r, err := d.Devices(c)
		if err != nil {
			return nil, err
		}
		if r != nil {
			out.Claims[c.GetUid()] = r
		}
	}
	if d.Answer != nil {
		return d.Answer(q.GetClaims())
	}
	return out, nil
}

// NodeUnprepareResources implements api.DRAPluginServer.
func (d *Driver) NodeUnprepareResources(
	_ context.Context, q *api.NodeUnprepareResourcesRequest,
) (*api.NodeUnprepareResourcesResponse, error) {
	out := &api.NodeUnprepareResourcesResponse{Claims: map[string]*api.NodeUnprepareResourceResponse{}}
	for _, c := range q.GetClaims() {
		d.called("unprepare", c)
		r := &api.NodeUnprepareResourceResponse{}
		if d.Unprepared != nil {
			r.Error = d.Unprepared(c)
		}
		out.Claims[c.GetUid()] = r
	}
	return out, nil
}
