package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/csidriver"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// disks is a CSI driver of a bed, in this process. The test plays the controllers of storage: it makes volumes and attaches
// them.
type disks struct {
	csidriver.Config
	bed        *bed
	controller csi.ControllerClient
	stop       func()
}

// newDisks makes the driver with its CSIDriver, and starts it.
func (b *bed) newDisks(t *testing.T, change func(*csidriver.Config, *storagev1.CSIDriverSpec)) *disks {
	t.Helper()
	dir := filepath.Join(b.Root(), "plugins", "disks")
	d := &disks{bed: b, Config: csidriver.Config{
		Name: b.name + ".example.com", Node: b.name, Dir: filepath.Join(dir, "d"), Socket: filepath.Join(dir, "csi.sock"),
		Control: filepath.Join(dir, "c.sock"), Registry: filepath.Join(b.Root(), "plugins_registry"),
		MaxVolumes: 7, Segments: map[string]string{b.name + ".example.com/zone": "a"},
	}}
	spec := storagev1.CSIDriverSpec{
		AttachRequired: new(true), PodInfoOnMount: new(true),
		VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral},
	}
	if change != nil {
		change(&d.Config, &spec)
	}
	check.Fatal(t, errors.Join(os.MkdirAll(d.Registry, 0o750), os.MkdirAll(dir, 0o750)))
	object := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: d.Name}, Spec: spec}
	check.Value(b.admin.StorageV1().CSIDrivers().Create(t.Context(), object, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		check.Error(t, b.admin.StorageV1().CSIDrivers().Delete(context.Background(), d.Name, metav1.DeleteOptions{}))
	})
	conn := check.Value(grpc.NewClient("unix://"+d.Socket, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	d.controller = csi.NewControllerClient(conn)
	t.Cleanup(func() {
		d.clean(t)
		d.stop()
		check.Error(t, errors.Join(conn.Close(), d.Clean()))
	})
	d.start(t)
	return d
}

// start starts the driver.
func (d *disks) start(t *testing.T) {
	t.Helper()
	driver := check.Value(csidriver.New(d.Config))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- driver.Serve(ctx) }()
	d.stop = func() {
		cancel()
		check.Error(t, <-ended)
		d.stop = func() {}
	}
	check.Fatal(t, lab.Eventually(t.Context(), patience, "the CSI driver serves", d.Serves))
}

// clean ends pods before the driver ends, which has to unpublish their volumes.
func (d *disks) clean(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	err := d.bed.admin.CoreV1().Pods(d.bed.name).DeleteCollection(ctx, now, metav1.ListOptions{})
	if err == nil {
		err = lab.Eventually(ctx, patience, "nothing is staged or published", d.unused)
	}
	if err != nil {
		t.Error(err)
	}
	calls, err := d.Calls()
	if err != nil {
		t.Error(err)
	}
	for _, c := range calls {
		check.Equal(t, c.Wrong, "", "a wrong call: %v", c)
	}
	if t.Failed() {
		t.Logf("calls: %v", calls)
	}
}

// unused is nil if nothing of the driver is on the node.
func (d *disks) unused() error {
	var left []string
	for _, pattern := range []string{"plugins/kubernetes.io/csi/*/*", "pods/*/volumes/kubernetes.io~csi/*"} {
		found, err := filepath.Glob(filepath.Join(d.bed.Root(), pattern))
		if err != nil {
			return err
		}
		left = append(left, found...)
	}
	if len(left) > 0 {
		return errors.New(strings.Join(left, ", "))
	}
	return nil
}

// claim makes a volume, and a claim of that name that is bound to it.
func (d *disks) claim(t *testing.T, name string, mode v1.PersistentVolumeAccessMode) *v1.PersistentVolume {
	t.Helper()
	b := d.bed
	made := check.Value(d.controller.CreateVolume(t.Context(), &csi.CreateVolumeRequest{
		Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: 16 << 20},
		VolumeCapabilities: []*csi.VolumeCapability{{
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		}},
	}))(t)
	return b.claimed(t, name, v1.PersistentVolumeSpec{
		Capacity: v1.ResourceList{v1.ResourceStorage: resource.MustParse("16Mi")}, AccessModes: []v1.PersistentVolumeAccessMode{mode},
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
			Driver: d.Name, VolumeHandle: made.GetVolume().GetVolumeId(), VolumeAttributes: made.GetVolume().GetVolumeContext(),
			FSType: "ext4",
		}},
	})
}

// attach plays the external-attacher: it attaches a volume when the controller wants it to.
func (d *disks) attach(t *testing.T, pv *v1.PersistentVolume) {
	t.Helper()
	d.bed.await(t, "the controller wants it attached", func() error {
		all := check.Must(d.bed.admin.StorageV1().VolumeAttachments().List(t.Context(), metav1.ListOptions{}))
		i := slices.IndexFunc(all.Items, func(a storagev1.VolumeAttachment) bool {
			return *a.Spec.Source.PersistentVolumeName == pv.Name
		})
		if i < 0 {
			return errors.New("there is no VolumeAttachment")
		}
		got := check.Must(d.controller.ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{
			VolumeId: pv.Spec.CSI.VolumeHandle, NodeId: d.Node, VolumeContext: pv.Spec.CSI.VolumeAttributes,
			VolumeCapability: &csi.VolumeCapability{
				AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
				AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
			},
		}))
		a := &all.Items[i]
		a.Status = storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: got.GetPublishContext()}
		return check.Err(d.bed.admin.StorageV1().VolumeAttachments().UpdateStatus(t.Context(), a, metav1.UpdateOptions{}))
	})
}

// claiming mounts a claim in the first container, at /data.
func claimed(name string, change ...func(*v1.PodSpec)) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) {
		s.Volumes = append(s.Volumes, volume("data", v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}))
		s.Containers[0].VolumeMounts = append(s.Containers[0].VolumeMounts, mounted("data"))
		for _, c := range change {
			c(s)
		}
	}
}

// methods are the calls about volumes that went well, in their order, without repetitions. Figures are asked for at any
// time.
func (d *disks) methods(t *testing.T) string {
	t.Helper()
	calls := check.Value(d.Calls())(t)
	var out []string
	for _, c := range calls {
		if c.Code == "OK" && strings.HasPrefix(c.Method, "Node") && c.Volume != "" && c.Method != "NodeGetVolumeStats" {
			out = append(out, c.Method)
		}
	}
	return strings.Join(slices.Compact(out), " ")
}

// inUse are the volumes that the Node says are in use.
func inUse(count int) func(*v1.Node) error {
	return func(n *v1.Node) error {
		return check.That(len(n.Status.VolumesInUse) == count, "in use are %v", n.Status.VolumesInUse)
	}
}

// TestCSIVolume runs a pod on a volume of a CSI driver, which is attached, staged and published for it, kills the agent
// meanwhile, and takes all away again.
//
//tier:real
func TestCSIVolume(t *testing.T) {
	t.Parallel()
	b := started(t, "csi")
	d := b.newDisks(t, nil)
	b.await(t, "the driver is shown", func() error {
		n, err := b.admin.StorageV1().CSINodes().Get(t.Context(), b.name, metav1.GetOptions{})
		if err == nil && (len(n.Spec.Drivers) != 1 || n.Spec.Drivers[0].NodeID != b.name || *n.Spec.Drivers[0].Allocatable.Count != 7) {
			err = fmt.Errorf("it shows %+v", n.Spec.Drivers)
		}
		return err
	})
	if n := b.node(t); n.Labels[d.Name+"/zone"] != "a" || !strings.Contains(n.Annotations["csi.volume.kubernetes.io/nodeid"], d.Name) {
		t.Errorf("the Node has %v and %v", n.Labels, n.Annotations)
	}
	pv := d.claim(t, "data", v1.ReadWriteOnce)
	b.create(t, b.pod("first", claimed("data", func(s *v1.PodSpec) {
		s.SecurityContext = &v1.PodSecurityContext{FSGroup: new(int64(2000))}
	})))
	d.attach(t, pv)
	p := b.awaitPod(t, "first", "is ready", ready)
	wantOwner(t, b.inside(t, p, "/data"), 0o777|os.ModeDir|os.ModeSetgid, 0, 2000)
	check.Fatal(t, os.WriteFile(b.inside(t, p, "/data/file"), []byte("kept"), 0o600))
	b.awaitNode(t, "names the volume as in use", inUse(1))

	b.kill(t)
	b.create(t, b.pod("second", claimed("data", func(s *v1.PodSpec) {
		s.Containers[0].VolumeMounts[0].SubPath = "sub"
	})))
	b.start(t)
	p2 := b.awaitPod(t, "second", "is ready", ready)
	check.Fatal(t, os.WriteFile(b.inside(t, p2, "/data/other"), []byte("of a part"), 0o600))
	again := b.awaitPod(t, "first", "is ready", ready)
	if c := again.Status.ContainerStatuses[0]; c.RestartCount != 0 || c.ContainerID != p.Status.ContainerStatuses[0].ContainerID {
		t.Errorf("the container was restarted: %+v", c)
	}
	b.awaitText(t, b.inside(t, again, "/data/sub/other"), "of a part")
	b.remove(t, "first")
	b.awaitGone(t, "first")
	b.remove(t, "second")
	b.awaitGone(t, "second")
	b.await(t, "nothing is staged or published", d.unused)
	b.awaitNode(t, "names no volume as in use", inUse(0))
	if got, want := d.methods(t), "NodeStageVolume NodePublishVolume NodeStageVolume NodePublishVolume NodeUnpublishVolume NodeUnstageVolume"; got != want {
		t.Errorf("calls: %s", got)
	}
}

// TestCSIInline runs a pod on an inline volume of a CSI driver, which is told of the pod.
//
//tier:real
func TestCSIInline(t *testing.T) {
	t.Parallel()
	b := started(t, "csi-inline")
	d := b.newDisks(t, func(_ *csidriver.Config, s *storagev1.CSIDriverSpec) {
		s.AttachRequired = new(false)
		s.TokenRequests = []storagev1.TokenRequest{{Audience: "disks"}}
	})
	b.create(t, b.pod("inline", func(s *v1.PodSpec) {
		s.Volumes = append(s.Volumes, volume("data", v1.VolumeSource{CSI: &v1.CSIVolumeSource{
			Driver: d.Name, VolumeAttributes: map[string]string{"color": "red"},
		}}))
		s.Containers[0].VolumeMounts = append(s.Containers[0].VolumeMounts, mounted("data"))
	}))
	p := b.awaitPod(t, "inline", "is ready", ready)
	check.Fatal(t, os.WriteFile(b.inside(t, p, "/data/file"), []byte("x"), 0o600))
	calls := check.Value(d.Calls())(t)
	i := slices.IndexFunc(calls, func(c csidriver.Call) bool { return c.Method == "NodePublishVolume" })
	if i < 0 {
		t.Fatalf("calls: %v", calls)
	}
	for k, want := range map[string]string{
		"color": "red", "csi.storage.k8s.io/pod.name": "inline", "csi.storage.k8s.io/pod.namespace": b.name,
		"csi.storage.k8s.io/pod.uid": string(p.UID), "csi.storage.k8s.io/ephemeral": "true",
	} {
		check.Equal(t, calls[i].Context[k], want, "%s", k)
	}
	if !strings.Contains(calls[i].Context["csi.storage.k8s.io/serviceAccount.tokens"], `"disks":{"token":"`) {
		t.Error("it was given no token")
	}
	b.remove(t, "inline")
	b.awaitGone(t, "inline")
	b.await(t, "nothing is published", d.unused)
}
