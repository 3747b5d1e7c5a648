package csidrivers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	registry "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/csidrivers"
	"github.com/troupe-dev/troupe/supervisor/host/deviceplugins"
	"github.com/troupe-dev/troupe/supervisor/host/mounts"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

const name = "disks.example.com"

// driver is a CSI driver behind real sockets. It notes its calls, and mounts nothing: mounted is what the mount table
// says that it has.
type driver struct {
	csi.UnimplementedNodeServer
	csi.UnimplementedIdentityServer
	registry.UnimplementedRegistrationServer
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
	notified      chan *registry.RegistrationStatus
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

func (d *driver) GetInfo(context.Context, *registry.InfoRequest) (*registry.PluginInfo, error) {
	return &registry.PluginInfo{Type: registry.CSIPlugin, Name: name, Endpoint: d.endpoint, SupportedVersions: d.versions}, nil
}

func (d *driver) NotifyRegistrationStatus(_ context.Context, s *registry.RegistrationStatus) (*registry.RegistrationStatusResponse, error) {
	d.notified <- s
	return &registry.RegistrationStatusResponse{}, nil
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
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	real, err := mounts.Parse(string(text))
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
		err = os.MkdirAll(filepath.Join(root, deviceplugins.Registry), 0o750)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, root: root, events: make(chan port.CSIDriver, 10), driver: &driver{
		endpoint: filepath.Join(root, "csi.sock"), versions: []string{"1.0.0"}, patience: time.Minute, fail: map[string]error{}, mounted: map[string]bool{}, notified: make(chan *registry.RegistrationStatus, 10),
		caps: []csi.NodeServiceCapability_RPC_Type{csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME},
	}}
	if change != nil {
		change(r.driver)
	}
	r.Drivers = check.Value(csidrivers.New(csidrivers.Config{
		Root: root, Host: r, Log: zerolog.Nop(), Patience: r.driver.patience, Called: func(string, string, string, time.Duration) {},
		Measured: func(string, time.Duration) {},
	}))(t)
	plugins := deviceplugins.New(filepath.Join(root, "device-plugins"), root, zerolog.Nop(), nil)
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
	registry.RegisterRegistrationServer(registration, r.driver)
	r.serve(server, r.driver.endpoint)
	r.serve(registration, filepath.Join(root, deviceplugins.Registry, "d.sock"))
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
func (r *rig) status() *registry.RegistrationStatus {
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

// TestUpAndDown goes through all calls, and looks at what is on disk after each.
func TestUpAndDown(t *testing.T) {
	r := newRig(t, nil)
	d := r.next()
	if d.Name != name || d.Gone {
		t.Fatal(d)
	}
	var info decide.Info
	if err := hosttest.Wait(func(done func(error)) {
		r.NodeInfo(t.Context(), d, func(i decide.Info, err error) { info = i; done(err) })
	}); err != nil || info.NodeID != "n" || info.MaxVolumes != 3 || info.Topology["z"] != "a" {
		t.Error(info, err)
	}
	check.Fatal(t, r.stage(d, stage))
	q := r.driver.last.(*csi.NodeStageVolumeRequest)
	at := filepath.Dir(q.GetStagingTargetPath())
	if filepath.Base(q.GetStagingTargetPath()) != "globalmount" || filepath.Dir(at) != filepath.Join(r.root, filepath.Dir(staged)) || len(filepath.Base(at)) != 64 ||
		q.GetVolumeId() != "vol/1" || q.GetVolumeContext()["a"] != "1" || q.GetPublishContext()["c"] != "2" || q.GetSecrets()["s"] != "3" ||
		q.GetVolumeCapability().GetMount().GetFsType() != "xfs" || q.GetVolumeCapability().GetMount().GetMountFlags()[0] != "noatime" ||
		q.GetVolumeCapability().GetAccessMode().GetMode() != csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER {
		t.Errorf("staged with %v", q)
	}
	rel, _ := filepath.Rel(r.root, at)
	if n := r.notes(rel); n["driverName"] != name || n["volumeHandle"] != "vol/1" || len(n) != 2 {
		t.Errorf("notes: %v", n)
	}
	group := publish
	group.Group, group.OwnGroup = new(int64(7)), true
	path, err := r.publish(d, group)
	if err != nil || path != filepath.Join(r.root, published, "mount") {
		t.Fatal(path, err)
	}
	if p := r.driver.last.(*csi.NodePublishVolumeRequest); p.GetReadonly() || p.GetStagingTargetPath() != q.GetStagingTargetPath() || p.GetTargetPath() != path || p.GetVolumeCapability().GetMount().GetVolumeMountGroup() != "" {
		t.Errorf("published with %v", p)
	}
	if n := r.notes(published); n["specVolID"] != "pv" || n["nodeName"] != "n" || n["attachmentID"] != "csi-x" || n["volumeLifecycleMode"] != "Persistent" || n["volumeHandle"] != "vol/1" || n["driverName"] != name {
		t.Errorf("notes: %v", n)
	}
	all, bad := r.found()
	want := []decide.Found{{Key: volume}, {Key: volume, Target: target}}
	if !slices.Equal(all, want) || len(bad) > 0 {
		t.Errorf("found %v, %v", all, bad)
	}
	group.Fresh = false
	check.Value(r.publish(d, group))(t) // once more: the driver may have written other files
	check.Error(t, r.undo(r.UnpublishVolume, d, want[1]))
	check.Error(t, r.undo(r.UnstageVolume, d, want[0]))
	for range 2 { // once more changes nothing
		if all, bad = r.found(); len(all)+len(bad) > 0 {
			t.Errorf("found %v, %v", all, bad)
		}
		hosttest.WantGone(t, filepath.Join(r.root, published))
		hosttest.WantGone(t, at)
		check.Error(t, errors.Join(r.undo(r.UnpublishVolume, d, want[1]), r.undo(r.UnstageVolume, d, want[0])))
	}
	check.Equal(t, r.driver.said(), "info stage publish publish unpublish unstage unpublish unstage unpublish unstage", "it")
	check.Equal(t, strings.Join(r.given[:5], ", "), "group mount, group mount, forget u1, sub-paths of u1, forget u1", "it")
	if s := r.status(); !s.GetPluginRegistered() {
		t.Errorf("the driver was told %v", s)
	}
	check.Fatal(t, os.Remove(filepath.Join(r.root, deviceplugins.Registry, "d.sock")))
	if d := r.next(); !d.Gone {
		t.Error(d)
	}
	hosttest.WantError(t, r.stage(d, stage), port.NotCalled, "is not registered on this node")
}

// TestLabels: a driver is given the label as a mount option, and the notes have it, as a kubelet's.
func TestLabels(t *testing.T) {
	r := newRig(t, nil)
	d := r.next()
	const label = "system_u:object_r:container_file_t:s0:c1,c2"
	s, p := stage, publish
	s.Label, p.Label = label, label
	check.Fatal(t, r.stage(d, s))
	want := []string{"noatime", `context="` + label + `"`}
	if got := r.driver.last.(*csi.NodeStageVolumeRequest).GetVolumeCapability().GetMount().GetMountFlags(); !slices.Equal(got, want) {
		t.Errorf("staged with %q", got)
	}
	check.Value(r.publish(d, p))(t)
	if got := r.driver.last.(*csi.NodePublishVolumeRequest).GetVolumeCapability().GetMount().GetMountFlags(); !slices.Equal(got, want[1:]) {
		t.Errorf("published with %q", got)
	}
	if n := r.notes(published); n["seLinuxMountContext"] != label {
		t.Errorf("notes: %v", n)
	}
	all, bad := r.found()
	if want := []decide.Found{{Key: volume, Label: label}, {Key: volume, Target: target, Label: label}}; !slices.Equal(all, want) || len(bad) > 0 {
		t.Errorf("found %v, %v", all, bad)
	}
}

// TestFailures: what an error says of the volume, and what stays on disk.
func TestFailures(t *testing.T) {
	r := newRig(t, nil)
	d := r.next()
	for code, want := range map[codes.Code]decide.Outcome{
		codes.Internal: decide.Refused, codes.NotFound: decide.Refused, codes.InvalidArgument: decide.Refused, codes.FailedPrecondition: decide.Refused,
		codes.DeadlineExceeded: decide.Unsure, codes.Unavailable: decide.Unsure, codes.Aborted: decide.Unsure, codes.ResourceExhausted: decide.Unsure, codes.Canceled: decide.Unsure,
	} {
		r.driver.fail["stage"] = status.Error(code, "no such luck")
		err := r.stage(d, stage)
		if got := port.CSIOutcome(err); got != want || !strings.Contains(err.Error(), code.String()) || !strings.Contains(err.Error(), "no such luck") {
			t.Errorf("%v: %v, %v", code, got, err)
		}
		all, _ := r.found()
		check.Equal(t, len(all) == 1, (want == decide.Unsure), "%v: found %v", code, all)
		if want == decide.Unsure { // it is undone
			check.Error(t, r.undo(r.UnstageVolume, d, decide.Found{Key: volume}))
		}
	}
	r.driver.fail["stage"] = nil
	r.driver.fail["caps"] = status.Error(codes.Unavailable, "not ready")
	hosttest.WantError(t, r.stage(d, stage), port.NotCalled, "NodeGetCapabilities")
	r.driver.fail["caps"] = nil

	check.Value(r.publish(d, publish))(t)
	r.driver.leaves = true
	f := decide.Found{Key: volume, Target: target}
	hosttest.WantError(t, r.undo(r.UnpublishVolume, d, f), port.StateConflict, "left its volume mounted")
	if all, _ := r.found(); len(all) != 1 {
		t.Errorf("it is forgotten: %v", all)
	}
	r.driver.leaves = false
	check.Fatal(t, r.undo(r.UnpublishVolume, d, f))
}

// TestMountedElsewhere: a volume is not unstaged while somebody has its file system mounted at a place of their own.
func TestMountedElsewhere(t *testing.T) {
	r := newRig(t, nil)
	d := r.next()
	check.Fatal(t, r.stage(d, stage))
	f := decide.Found{Key: volume}
	r.foreign = []mounts.Mount{{Point: "/mnt/by-hand", Device: "8:1", Root: "/"}}
	hosttest.WantError(t, r.undo(r.UnstageVolume, d, f), port.StateConflict, "is still mounted by other references [/mnt/by-hand]")
	check.Equal(t, r.driver.said(), "stage", "the driver is asked to")
	r.foreign = []mounts.Mount{
		{Point: "/mnt/of-another", Device: "8:2", Root: "/"}, {Point: "/mnt/part", Device: "8:1", Root: "/part"},
		{Point: filepath.Join(r.root, "pods/u2/volumes/kubernetes.io~csi/pv-2/mount"), Device: "8:1", Root: "/"},
		// The root directory is mounted at a second place.
		{Point: "/data/kubelet/plugins/kubernetes.io/csi/d/h/globalmount", Device: "8:1", Root: "/"},
		{Point: "/data/kubelet/pods/u1/volumes/kubernetes.io~csi/pv-1/mount", Device: "8:1", Root: "/"},
	}
	check.Fatal(t, r.undo(r.UnstageVolume, d, f))
	check.Equal(t, r.driver.said(), "unstage", "the driver is asked to")
}

// TestNoStageSecret: a secret that is not there matters only to a driver that stages.
func TestNoStageSecret(t *testing.T) {
	for _, stages := range []bool{true, false} {
		t.Run(fmt.Sprint("stages ", stages), func(t *testing.T) {
			r := newRig(t, func(d *driver) {
				if !stages {
					d.caps = nil
				}
			})
			d := r.next()
			s, b := stage, stage
			s.NoSecret = "nodeStageSecretRef storage/key: not found"
			b.NoSecret, b.Block = s.NoSecret, true
			for _, s := range []decide.Stage{s, b} {
				err := r.stage(d, s)
				if stages {
					hosttest.WantError(t, err, port.NotCalled, "nodeStageSecretRef storage/key: not found")
				} else {
					check.Error(t, err)
				}
			}
			check.Equal(t, r.driver.said(), "", "the driver is called")
		})
	}
}

// TestNotStaged: a driver that stages nothing is not asked to, and is given no path of a staged volume. One that sets
// the group itself is given the group.
func TestNotStaged(t *testing.T) {
	r := newRig(t, func(d *driver) {
		d.caps = []csi.NodeServiceCapability_RPC_Type{
			csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP, csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
		}
	})
	d := r.next()
	p := publish
	p.Group, p.OwnGroup, p.Inline, p.ReadOnly = new(int64(7)), true, true, true
	_, err := r.publish(d, p)
	if err = errors.Join(err, r.stage(d, stage)); err != nil {
		t.Fatal(err)
	}
	q := r.driver.last.(*csi.NodePublishVolumeRequest)
	if q.GetStagingTargetPath() != "" || !q.GetReadonly() || q.GetVolumeCapability().GetMount().GetVolumeMountGroup() != "7" || q.GetVolumeCapability().GetAccessMode().GetMode() != csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER {
		t.Errorf("published with %v", q)
	}
	f := decide.Found{Key: volume, Target: target, Inline: true}
	if all, _ := r.found(); !slices.Equal(all, []decide.Found{f}) {
		t.Errorf("found %v", all)
	}
	check.Error(t, errors.Join(r.undo(r.UnpublishVolume, d, f), r.undo(r.UnstageVolume, d, decide.Found{Key: volume})))
	if got := r.driver.said(); got != "publish unpublish" || len(r.given) != 2 {
		t.Error(got, r.given)
	}
}

// TestBlock goes through all calls with a device, and takes away what a kubelet has beside it.
func TestBlock(t *testing.T) {
	r := newRig(t, nil)
	d := r.next()
	s, p := stage, publish
	s.Block, p.Block = true, true
	check.Fatal(t, r.stage(d, s))
	home := filepath.Join(r.root, "plugins/kubernetes.io/csi/volumeDevices")
	q := r.driver.last.(*csi.NodeStageVolumeRequest)
	if q.GetStagingTargetPath() != filepath.Join(home, "staging/pv") || q.GetVolumeCapability().GetBlock() == nil {
		t.Errorf("staged with %v", q)
	}
	r.driver.mount(q.GetStagingTargetPath(), false) // a device is not mounted where it is staged
	path, err := r.publish(d, p)
	if err != nil || path != filepath.Join(home, "publish/pv/u1") {
		t.Fatal(path, err)
	}
	link := filepath.Join(r.root, "pods/u1/volumeDevices/kubernetes.io~csi/pv")
	if to, err := os.Readlink(link); to != path || err != nil {
		t.Error(to, err)
	}
	dev := filepath.Join(home, "pv/dev/u1")
	check.Fatal(t, os.MkdirAll(filepath.Dir(dev), 0o750))
	hosttest.Write(t, dev, "")
	hosttest.Write(t, filepath.Join(filepath.Dir(dev), "u2"), "") // of a pod that it has unpublished
	want := []decide.Found{{Key: volume, Target: decide.Target{Name: "pv"}, Block: true}, {Key: volume, Target: target, Block: true}}
	if all, bad := r.found(); !slices.Equal(all, want) || len(bad) > 0 {
		t.Errorf("found %v, %v", all, bad)
	}
	if err := hosttest.Wait(func(done func(error)) {
		r.ExpandVolume(t.Context(), d, decide.Expand{Key: volume, Pod: "u1", Name: "pv", Block: true}, done)
	}); port.KindOf(err) != port.Unsupported {
		t.Error(err)
	}
	for range 2 {
		check.Error(t, errors.Join(r.undo(r.UnpublishVolume, d, want[1]), r.undo(r.UnstageVolume, d, want[0])))
		for _, gone := range []string{filepath.Join(home, "staging/pv"), filepath.Join(home, "publish/pv"), filepath.Join(home, "pv"), filepath.Dir(link)} {
			hosttest.WantGone(t, gone)
		}
	}
	if all, bad := r.found(); len(all)+len(bad) > 0 {
		t.Errorf("found %v, %v", all, bad)
	}
}

// TestExpand: a volume is expanded where it is published for a pod. A driver that stages is also told where it is staged.
func TestExpand(t *testing.T) {
	for _, stages := range []bool{true, false} {
		for _, block := range []bool{true, false} {
			t.Run(fmt.Sprintf("stages %v, a device %v", stages, block), func(t *testing.T) {
				r := newRig(t, func(d *driver) {
					if !stages {
						d.caps = nil
					}
					d.caps = append(d.caps, csi.NodeServiceCapability_RPC_EXPAND_VOLUME)
				})
				d := r.next()
				s, p := stage, publish
				s.Block, p.Block = block, block
				check.Fatal(t, r.stage(d, s))
				check.Value(r.publish(d, p))(t)
				at := r.driver.last.(*csi.NodePublishVolumeRequest)
				check.Fatal(t, hosttest.Wait(func(done func(error)) {
					r.ExpandVolume(t.Context(), d, decide.Expand{Key: volume, Pod: "u1", Name: "pv", Block: block, Size: 5}, done)
				}))
				got := r.driver.last.(*csi.NodeExpandVolumeRequest)
				if got.GetVolumePath() != at.GetTargetPath() || got.GetStagingTargetPath() != at.GetStagingTargetPath() ||
					got.GetCapacityRange().GetRequiredBytes() != 5 || (got.GetVolumeCapability().GetBlock() != nil) != block {
					t.Errorf("expanded with %v, published with %v", got, at)
				}
			})
		}
	}
}

// TestDamage: notes that can't be read are named, and stay. Those of a pod, and empty ones, go if nothing is mounted.
func TestDamage(t *testing.T) {
	r := newRig(t, nil)
	r.next()
	dir := filepath.Join(r.root, "plugins/kubernetes.io/csi", name)
	for path, text := range map[string]string{
		filepath.Join(dir, "abc", "vol_data.json"):                                 `{"driverName":"` + name + `","volumeHandle":"other"}`,
		filepath.Join(dir, "bad", "vol_data.json"):                                 `{`,
		filepath.Join(dir, "empty", "vol_data.json"):                               ``,
		filepath.Join(r.root, "pods/u2/volumes/kubernetes.io~csi/x/vol_data.json"): `{"volumeHandle":"v"}`,
		filepath.Join(r.root, "pods/u2/volumes/kubernetes.io~csi/y/vol_data.json"): ``,
	} {
		check.Fatal(t, os.MkdirAll(filepath.Dir(path), 0o750))
		hosttest.Write(t, path, text)
	}
	r.driver.mount(filepath.Join(r.root, "pods/u2/volumes/kubernetes.io~csi/x/mount"), true)
	// What was begun, and no more: nothing was asked of a driver.
	for _, path := range []string{filepath.Join(dir, "new", "globalmount"), filepath.Join(r.root, "pods/u3/volumes/kubernetes.io~csi/x/mount")} {
		check.Fatal(t, os.MkdirAll(path, 0o750))
	}
	all, bad := r.found()
	if len(all) > 0 || len(bad) != 3 {
		t.Errorf("found %v, unreadable %q", all, bad)
	}
	hosttest.WantGone(t, filepath.Join(dir, "new"))
	hosttest.WantGone(t, filepath.Join(dir, "empty"))
	hosttest.WantGone(t, filepath.Join(r.root, "pods/u2/volumes/kubernetes.io~csi/y"))
	hosttest.WantGone(t, filepath.Join(r.root, "pods/u3/volumes/kubernetes.io~csi/x"))
}

// TestVersions: a driver of another version of the specification is refused, and told why.
func TestVersions(t *testing.T) {
	r := newRig(t, func(d *driver) { d.versions = []string{"0.3.0", "2.0.0"} })
	if s := r.status(); s.GetPluginRegistered() || !strings.Contains(s.GetError(), "supports version 1 of the CSI spec") {
		t.Error(s)
	}
}
