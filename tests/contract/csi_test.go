package contract_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/csidrivers"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/contract"
)

const csiName = "disks.example.com"

func TestSimulatedCSI(t *testing.T) {
	contract.CSI(t, func(_ *testing.T, d contract.CSIDriver) contract.CSISubject {
		m, passing := simulatedMachine()
		of := machine.CSIDriver{
			NodeID: d.Info.NodeID, MaxVolumes: d.Info.MaxVolumes, Topology: d.Info.Topology, PublishOnly: !d.Stages, Fixed: !d.Expands,
		}
		if d.Measures {
			of.Usage = &d.Usage
		}
		faults := map[string]machine.Fault{}
		m.CSI.Fault = func(c machine.Call) machine.Fault { return faults[c.Verb] }
		staging := false
		m.CSI.Changed = func(c machine.CSIChange) { staging = staging || c.Op == csi.StageVolume }
		return contract.CSISubject{
			Passing: passing, CSI: m.CSI, Name: csiName, Staging: func() bool { return staging },
			Start: func() { m.CSI.Serve(csiName, of) }, Stop: func() { m.CSI.Stop(csiName) },
			Fault: func(method string, f contract.CSIFault) {
				switch f {
				case contract.Well:
					delete(faults, method)
				case contract.Final:
					faults[method] = machine.Fault{Err: &port.Error{Kind: port.Other, Verb: method}}
				case contract.Unclear:
					faults[method] = machine.Fault{Err: &port.Error{Kind: port.Unavailable, Verb: method}}
				case contract.Hang:
					faults[method] = machine.Fault{Hang: true}
				}
			},
		}
	})
}

// TestRealCSI runs the suite on the adapter, in front of a driver behind a socket that mounts nothing: it says what it
// has mounted in the mount table.
func TestRealCSI(t *testing.T) {
	contract.CSI(t, func(t *testing.T, of contract.CSIDriver) contract.CSISubject {
		root, err := os.MkdirTemp("", "csi") // a short path: a socket is below it
		if err != nil {
			t.Fatal(err)
		}
		d := &csiDriver{of: of, faults: map[string]contract.CSIFault{}, mounted: map[string]bool{}}
		adapter := check.Value(csidrivers.New(csidrivers.Config{
			Root: root, Host: d, Log: zerolog.Nop(), Patience: time.Minute,
			Called: func(string, string, string, time.Duration) {}, Measured: func(string, time.Duration) {},
		}))(t)
		registered := port.CSIDriver{Name: csiName, Endpoint: filepath.Join(root, "csi.sock")}
		stop := func() {}
		t.Cleanup(func() {
			stop()
			adapter.Close()
			check.Error(t, os.RemoveAll(root))
			goleak.VerifyNone(t)
		})
		return contract.CSISubject{
			Passing: contract.Really(), CSI: adapter, Name: csiName, Fault: d.fault, Staging: d.asked,
			Start: func() {
				end := d.serve(t, registered.Endpoint)
				adapter.Found(registered)
				stop = func() {
					stop = func() {}
					gone := registered
					gone.Gone = true
					adapter.Found(gone)
					end()
				}
			},
			Stop: func() { stop() },
		}
	})
}

// csiDriver is a CSI driver, and the host on which it has mounted its volumes.
type csiDriver struct {
	csispec.UnimplementedNodeServer
	of      contract.CSIDriver
	mu      sync.Mutex
	faults  map[string]contract.CSIFault
	mounted map[string]bool
	staging bool
}

// asked reports whether it was ever asked to stage a volume.
func (d *csiDriver) asked() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.staging
}

func (d *csiDriver) fault(method string, f contract.CSIFault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults[method] = f
}

func (d *csiDriver) serve(t *testing.T, path string) (end func()) {
	t.Helper()
	l := check.Value(net.Listen("unix", path))(t)
	server := grpc.NewServer()
	csispec.RegisterNodeServer(server, d)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	return func() {
		server.Stop()
		check.Error(t, <-ended)
	}
}

// call is how a call goes that mounts at path, or unmounts it; empty: neither.
func (d *csiDriver) call(ctx context.Context, method, path string, mounts bool) error {
	d.mu.Lock()
	fault := d.faults[method]
	d.staging = d.staging || method == "NodeStageVolume"
	d.mu.Unlock()
	switch fault {
	case contract.Final:
		return status.Error(codes.InvalidArgument, "planted")
	case contract.Unclear:
		return status.Error(codes.Unavailable, "planted")
	case contract.Hang:
		<-ctx.Done()
		return ctx.Err()
	case contract.Well:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.mounted, path)
	if mounts {
		d.mounted[path] = true
	}
	return nil
}

func (d *csiDriver) NodeGetCapabilities(context.Context, *csispec.NodeGetCapabilitiesRequest) (*csispec.NodeGetCapabilitiesResponse, error) {
	out := &csispec.NodeGetCapabilitiesResponse{}
	for c, is := range map[csispec.NodeServiceCapability_RPC_Type]bool{
		csispec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME: d.of.Stages, csispec.NodeServiceCapability_RPC_EXPAND_VOLUME: d.of.Expands,
		csispec.NodeServiceCapability_RPC_GET_VOLUME_STATS: d.of.Measures,
	} { // order-free: a set
		if is {
			out.Capabilities = append(out.Capabilities, &csispec.NodeServiceCapability{Type: &csispec.NodeServiceCapability_Rpc{
				Rpc: &csispec.NodeServiceCapability_RPC{Type: c},
			}})
		}
	}
	return out, nil
}

func (d *csiDriver) NodeGetInfo(ctx context.Context, _ *csispec.NodeGetInfoRequest) (*csispec.NodeGetInfoResponse, error) {
	return &csispec.NodeGetInfoResponse{
		NodeId: d.of.Info.NodeID, MaxVolumesPerNode: d.of.Info.MaxVolumes, AccessibleTopology: &csispec.Topology{Segments: d.of.Info.Topology},
	}, d.call(ctx, "NodeGetInfo", "", false)
}

func (d *csiDriver) NodeStageVolume(ctx context.Context, r *csispec.NodeStageVolumeRequest) (*csispec.NodeStageVolumeResponse, error) {
	return &csispec.NodeStageVolumeResponse{}, d.call(ctx, "NodeStageVolume", r.GetStagingTargetPath(), true)
}

func (d *csiDriver) NodeUnstageVolume(ctx context.Context, r *csispec.NodeUnstageVolumeRequest) (*csispec.NodeUnstageVolumeResponse, error) {
	return &csispec.NodeUnstageVolumeResponse{}, d.call(ctx, "NodeUnstageVolume", r.GetStagingTargetPath(), false)
}

func (d *csiDriver) NodePublishVolume(ctx context.Context, r *csispec.NodePublishVolumeRequest) (*csispec.NodePublishVolumeResponse, error) {
	if err := d.call(ctx, "NodePublishVolume", r.GetTargetPath(), true); err != nil {
		return nil, err
	}
	return &csispec.NodePublishVolumeResponse{}, os.MkdirAll(r.GetTargetPath(), 0o750)
}

func (d *csiDriver) NodeUnpublishVolume(ctx context.Context, r *csispec.NodeUnpublishVolumeRequest) (*csispec.NodeUnpublishVolumeResponse, error) {
	return &csispec.NodeUnpublishVolumeResponse{}, d.call(ctx, "NodeUnpublishVolume", r.GetTargetPath(), false)
}

func (d *csiDriver) NodeExpandVolume(ctx context.Context, _ *csispec.NodeExpandVolumeRequest) (*csispec.NodeExpandVolumeResponse, error) {
	return &csispec.NodeExpandVolumeResponse{}, d.call(ctx, "NodeExpandVolume", "", false)
}

func (d *csiDriver) NodeGetVolumeStats(ctx context.Context, _ *csispec.NodeGetVolumeStatsRequest) (*csispec.NodeGetVolumeStatsResponse, error) {
	one := func(unit csispec.VolumeUsage_Unit, a csi.Amount) *csispec.VolumeUsage {
		return &csispec.VolumeUsage{Unit: unit, Total: a.Total, Available: a.Available, Used: a.Used}
	}
	return &csispec.NodeGetVolumeStatsResponse{Usage: []*csispec.VolumeUsage{
		one(csispec.VolumeUsage_BYTES, d.of.Usage.Bytes), one(csispec.VolumeUsage_INODES, d.of.Usage.Inodes),
	}}, d.call(ctx, "NodeGetVolumeStats", "", false)
}

// Mounts implements csidrivers.Host.
func (d *csiDriver) Mounts() (out []mounts.Mount, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for path := range d.mounted { // order-free: a set
		out = append(out, mounts.Mount{Point: path, Type: "ext4", Source: "/dev/x"})
	}
	return out, nil
}

func (d *csiDriver) GiveToGroup(context.Context, string, int64, bool, port.Walked) error { return nil }
func (d *csiDriver) UnmountSubPaths(context.Context, string) error                       { return nil }
func (d *csiDriver) NoteClaim(string, string, string)                                    {}
func (d *csiDriver) ForgetClaims(string)                                                 {}
