package csidriver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/kubernetes/test/e2e/storage/drivers/csi-test/mock/service"

	"github.com/troupe-dev/troupe/tests/check"
)

// Driver serves CSI's identity, controller and node, and the registration with a node agent.
type Driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
	registerapi.UnimplementedRegistrationServer

	config Config
	store  store
	faults faults
	// busy are locks, by the volume's ID: the calls of a volume come one after another.
	busy sync.Map
}

// New prepares a driver. [Driver.Serve] serves it.
func New(config Config) (_ *Driver, err error) {
	defer check.Return(&err)
	check.OK(config.Validate())
	for _, dir := range []string{"volumes", "snapshots"} {
		check.OK(os.MkdirAll(filepath.Join(config.Dir, dir), 0o755))
	}
	d := &Driver{config: config, store: store{filepath.Join(config.Dir, "known")}}
	return d, d.store.change(func(k *known) error {
		k.Nodes[config.Node] = config.MaxVolumes
		return nil
	})
}

// Serve serves until ctx ends. Calls that have begun then are not waited for.
func (d *Driver) Serve(ctx context.Context) error {
	calls := grpc.NewServer(grpc.UnaryInterceptor(d.intercept))
	var serves service.Service = d
	if d.config.Mock {
		serves = service.New(service.Config{
			DriverName: d.config.Name, DisableAttach: d.config.NoAttach, AttachLimit: d.config.MaxVolumes, NodeExpansionRequired: true,
		})
	}
	csi.RegisterIdentityServer(calls, serves)
	csi.RegisterControllerServer(calls, serves)
	csi.RegisterNodeServer(calls, serves)
	control := &http.Server{Handler: d, ReadHeaderTimeout: time.Minute}
	registration := grpc.NewServer(grpc.UnaryInterceptor(d.intercept))
	registerapi.RegisterRegistrationServer(registration, d)
	ended := make(chan error, 3)
	serving := 0
	serve := func(socket string, serve func(net.Listener) error) error {
		// One that was killed leaves its socket.
		if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		l, err := net.Listen("unix", socket)
		if err == nil {
			serving++
			go func() { ended <- serve(l) }()
		}
		return err
	}
	err := errors.Join(serve(d.config.Control, control.Serve), serve(d.config.Socket, calls.Serve))
	if err == nil && d.config.Registry != "" {
		// After the rest, because an agent calls at once.
		err = serve(d.registration(), registration.Serve)
	}
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-ended:
			serving--
		}
	}
	registration.Stop() // removes its socket, by which an agent knows
	calls.Stop()
	err = errors.Join(err, control.Close())
	for range serving {
		<-ended //nolint:errcheck // that they were stopped
	}
	return err
}

func (d *Driver) registration() string {
	return filepath.Join(d.config.Registry, d.config.Name+"-reg.sock")
}

func (d *Driver) log(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s on %s: %s\n", d.config.Name, d.config.Node, fmt.Sprintf(format, args...))
}

// GetInfo is what a node agent asks of the registration's socket.
func (d *Driver) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{
		Type: registerapi.CSIPlugin, Name: d.config.Name, Endpoint: d.config.Socket, SupportedVersions: []string{"1.0.0"},
	}, nil
}

// NotifyRegistrationStatus is what the agent answers.
func (d *Driver) NotifyRegistrationStatus(_ context.Context, s *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	if !s.GetPluginRegistered() {
		return nil, status.Errorf(codes.FailedPrecondition, "not registered: %s", s.GetError())
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}

// GetPluginInfo is an identity call.
func (d *Driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.config.Name, VendorVersion: "1"}, nil
}

// Probe is an identity call.
func (d *Driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// GetPluginCapabilities is an identity call.
func (d *Driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	service := func(t csi.PluginCapability_Service_Type) *csi.PluginCapability {
		return &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: t}}}
	}
	out := []*csi.PluginCapability{
		service(csi.PluginCapability_Service_CONTROLLER_SERVICE),
		{Type: &csi.PluginCapability_VolumeExpansion_{VolumeExpansion: &csi.PluginCapability_VolumeExpansion{
			Type: csi.PluginCapability_VolumeExpansion_ONLINE,
		}}},
	}
	if len(d.config.Segments) > 0 {
		out = append(out, service(csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS))
	}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: out}, nil
}
