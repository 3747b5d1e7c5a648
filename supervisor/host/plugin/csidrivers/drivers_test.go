package csidrivers_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/registry"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

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
	check.Fatal(t, os.Remove(filepath.Join(r.root, registry.Directory, "d.sock")))
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
