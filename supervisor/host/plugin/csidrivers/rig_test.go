package csidrivers_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	regapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/csidrivers"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/deviceplugins"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/registry"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

const name = "disks.example.com"

// driver is a CSI driver behind real sockets. It notes its calls, and mounts nothing: mounted is what the mount table
// says that it has.
type driver struct {
	csi.UnimplementedNodeServer
	csi.UnimplementedIdentityServer
	regapi.UnimplementedRegistrationServer
	endpoint string
	versions []string
	patience time.Duration // how long it may take for a call
	caps     []csi.NodeServiceCapability_RPC_Type

	mu      sync.Mutex
	calls   []string
	last    any
	fail    map[string]error
	stats   *csi.NodeGetVolumeStatsResponse // nil: it hangs
	mounted map[string]bool
	leaves  bool // what it unmounts stays
	// entered gets something when a volume is staged or published, which then waits for free; nil: it does not.
	entered, free chan struct{}
	notified      chan *regapi.RegistrationStatus
}

func (d *driver) call(method string, r any) error {
	d.mu.Lock()
	d.calls, d.last = append(d.calls, method), r
	err := d.fail[method]
	d.mu.Unlock()
	if d.entered != nil {
		d.entered <- struct{}{}
		<-d.free
	}
	return err
}

func (d *driver) said() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := strings.Join(d.calls, " ")
	d.calls = nil
	return out
}

func (d *driver) mount(path string, on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if on {
		d.mounted[path] = true
	} else if !d.leaves {
		delete(d.mounted, path)
	}
}

func (d *driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := &csi.NodeGetCapabilitiesResponse{}
	for _, c := range d.caps {
		out.Capabilities = append(out.Capabilities, &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: c}}})
	}
	return out, d.fail["caps"]
}

func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: "n", MaxVolumesPerNode: 3, AccessibleTopology: &csi.Topology{Segments: map[string]string{"z": "a"}}}, d.call("info", nil)
}

func (d *driver) NodeStageVolume(_ context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	err := d.call("stage", r)
	if err == nil || d.leaves {
		d.mount(r.GetStagingTargetPath(), true)
	}
	return &csi.NodeStageVolumeResponse{}, err
}

func (d *driver) NodeUnstageVolume(_ context.Context, r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	d.mount(r.GetStagingTargetPath(), false)
	return &csi.NodeUnstageVolumeResponse{}, d.call("unstage", r)
}

func (d *driver) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	err := d.call("publish", r)
	if err == nil || d.leaves {
		if _, missing := os.Lstat(r.GetTargetPath()); missing != nil {
			err = errors.Join(err, os.MkdirAll(r.GetTargetPath(), 0o750))
		}
		d.mount(r.GetTargetPath(), true)
	}
	return &csi.NodePublishVolumeResponse{}, err
}

func (d *driver) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	d.mount(r.GetTargetPath(), false)
	return &csi.NodeUnpublishVolumeResponse{}, d.call("unpublish", r)
}

func (d *driver) NodeExpandVolume(_ context.Context, r *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	return &csi.NodeExpandVolumeResponse{}, d.call("expand", r)
}

func (d *driver) GetInfo(context.Context, *regapi.InfoRequest) (*regapi.PluginInfo, error) {
	return &regapi.PluginInfo{Type: regapi.CSIPlugin, Name: name, Endpoint: d.endpoint, SupportedVersions: d.versions}, nil
}

func (d *driver) NotifyRegistrationStatus(_ context.Context, s *regapi.RegistrationStatus) (*regapi.RegistrationStatusResponse, error) {
	d.notified <- s
	return &regapi.RegistrationStatusResponse{}, nil
}

// rig is the adapter with a registry that is watched, and a host whose mount table is the driver's.
type rig struct {
	*testing.T
	*csidrivers.Drivers
	driver *driver
	root   string
	events chan port.CSIDriver
	mu     sync.Mutex
	given  []string
	lost   []decide.Lost
	// foreign are mounts that are not the driver's.
	foreign []mounts.Mount
	giving  func(context.Context) error // nil: at once
}

func (r *rig) Mounts() ([]mounts.Mount, error) {
	r.driver.mu.Lock()
	defer r.driver.mu.Unlock()
	var out []mounts.Mount
	for path := range r.driver.mounted {
		out = append(out, mounts.Mount{Point: path, Type: "ext4", Source: "/dev/x", Device: "8:1", Root: "/"})
	}
	out = append(out, r.foreign...)
	real, err := mounts.Now()
	return append(out, mounts.Below(real, r.root)...), err
}

func (r *rig) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.given = append(r.given, text)
}

func (r *rig) GiveToGroup(ctx context.Context, path string, _ int64, _ bool, _ port.Walked) error {
	r.note("group " + filepath.Base(path))
	if r.giving != nil {
		return r.giving(ctx)
	}
	return nil
}

func (r *rig) UnmountSubPaths(_ context.Context, uid string) error {
	r.note("sub-paths of " + uid)
	return nil
}

func (r *rig) NoteClaim(uid, volume, path string) {
	r.note("claim " + uid + " " + volume + " " + filepath.Base(path))
}

func (r *rig) ForgetClaims(uid string) { r.note("forget " + uid) }

func newRig(t *testing.T, change func(*driver)) *rig {
	t.Helper()
	root, err := os.MkdirTemp("", "csi") // a short path: sockets are below it
	if err == nil {
		err = os.MkdirAll(filepath.Join(root, registry.Directory), 0o750)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, root: root, events: make(chan port.CSIDriver, 10), driver: &driver{
		endpoint: filepath.Join(root, "csi.sock"), versions: []string{"1.0.0"}, patience: time.Minute, fail: map[string]error{}, mounted: map[string]bool{}, notified: make(chan *regapi.RegistrationStatus, 10),
		caps: []csi.NodeServiceCapability_RPC_Type{csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME},
	}}
	if change != nil {
		change(r.driver)
	}
	r.Drivers = check.Value(csidrivers.New(csidrivers.Config{
		Root: root, Host: r, Log: zerolog.Nop(), Patience: r.driver.patience, Called: func(string, string, string, time.Duration) {},
		Measured: func(string, time.Duration) {},
	}))(t)
	plugins := deviceplugins.New(filepath.Join(root, "device-plugins"), root, zerolog.Nop())
	plugins.ServeCSI(r.Found)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	plugins.Registrations(ctx, func(port.DevicePlugin) {}, func(err error) { ended <- err })
	r.Drivers.Drivers(ctx, func(d port.CSIDriver) { r.events <- d }, func(err error) { ended <- err })
	t.Cleanup(func() {
		cancel()
		for range 2 {
			hosttest.WantError(t, <-ended, port.Canceled)
		}
		r.Close()
		check.Error(t, os.RemoveAll(root))
		goleak.VerifyNone(t)
	})
	server := grpc.NewServer()
	csi.RegisterNodeServer(server, r.driver)
	registration := grpc.NewServer()
	regapi.RegisterRegistrationServer(registration, r.driver)
	r.serve(server, r.driver.endpoint)
	r.serve(registration, filepath.Join(root, registry.Directory, "d.sock"))
	return r
}

func (r *rig) serve(s *grpc.Server, path string) {
	r.Helper()
	l := check.Value(net.Listen("unix", path))(r)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	r.Cleanup(func() {
		s.Stop()
		check.Error(r.T, <-ended)
	})
}

func (r *rig) next() port.CSIDriver {
	r.Helper()
	return check.Receive(r, r.events)
}

// status is what the driver was told of its registration.
func (r *rig) status() *regapi.RegistrationStatus {
	r.Helper()
	return check.Receive(r, r.driver.notified)
}

var (
	volume = decide.Key{Driver: name, Handle: "vol/1"}
	target = decide.Target{Pod: "u1", Name: "pv"}
	stage  = decide.Stage{Key: volume, Name: "pv", FSType: "xfs", MountOptions: []string{"noatime"}, Access: v1.ReadWriteOnce, Fresh: true,
		Attributes: map[string]string{"a": "1"}, Context: map[string]string{"c": "2"}, Secrets: map[string]string{"s": "3"}}
	publish = decide.Publish{Key: volume, Target: target, Volume: "data", Access: v1.ReadWriteOncePod, Attributes: map[string]string{"a": "1"}, Node: "n", Attachment: "csi-x", Fresh: true}
	// The SHA-256 of the handle.
	staged    = "plugins/kubernetes.io/csi/" + name + "/eb13d8aea4dd1cf0ee6aae2ad2e0a0b0a7d0a2a5f9d4f2e7c4c9f4c7b8b1d3a0"
	published = "pods/u1/volumes/kubernetes.io~csi/pv"
)

func (r *rig) stage(d port.CSIDriver, s decide.Stage) error {
	return hosttest.Wait(func(done func(error)) { r.StageVolume(r.Context(), d, s, done) })
}

func (r *rig) publish(d port.CSIDriver, p decide.Publish) (path string, err error) {
	err = hosttest.Wait(func(done func(error)) {
		r.PublishVolume(r.Context(), d, p, nil, func(at string, err error) { path = at; done(err) })
	})
	return path, err
}

func (r *rig) undo(what func(context.Context, port.CSIDriver, decide.Found, func(error)), d port.CSIDriver, f decide.Found) error {
	return hosttest.Wait(func(done func(error)) { what(r.Context(), d, f, done) })
}

func (r *rig) found() (all []decide.Found, bad []string) {
	r.Helper()
	check.Fatal(r, hosttest.Wait(func(done func(error)) {
		r.FoundVolumes(r.Context(), func(f []decide.Found, lost []decide.Lost, b []string, err error) {
			all, bad, r.lost = f, b, lost
			for _, l := range lost {
				bad = append(bad, l.Why)
			}
			done(err)
		})
	}))
	return all, bad
}

func (r *rig) notes(dir string) map[string]string {
	r.Helper()
	data, err := os.ReadFile(filepath.Join(r.root, dir, "vol_data.json"))
	out := map[string]string{}
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		r.Fatal(err)
	}
	return out
}
