package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/csidriver"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/member"
)

// csiBed is a node with a CSI driver of its own, whose sidecars run beside it. Volumes are of these classes, which have
// the bed's name before theirs:
//
//	dir    directories           late  the same, made when a pod wants them
//	image  ext4 on loop devices  xfs   the same with XFS, which can be grown while it is mounted
type csiBed struct {
	*bed
	driver  csidriver.Config
	process *plugin
	dynamic dynamic.Interface
}

// agentOfCSI names the agent that CSI is tested with: troupe, or the kubelet if TROUPE_CSI_AGENT says so.
func agentOfCSI() string { return cmp.Or(os.Getenv("TROUPE_CSI_AGENT"), "troupe") }

func csiAgent(t *testing.T) member.Agent {
	t.Helper()
	if agentOfCSI() == "kubelet" {
		return agentOf(t, "kubelet").OwnPlugins()
	}
	return agentOf(t, "troupe")
}

// snapshots starts the controller of snapshots, of which a cluster has one, and makes its kinds.
var snapshots = sync.OnceValue(func() error {
	ctx := context.Background()
	p, err := shared.ControlPlane()
	if err != nil {
		return err
	}
	repository, err := lab.Repository()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(p.AdminConfig())
	if err != nil {
		return err
	}
	manifests, err := lab.SnapshotCRDs(ctx, repository)
	if err != nil {
		return err
	}
	for _, text := range manifests {
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &crd.Object); err != nil {
			return err
		}
		at := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
		if _, err := client.Resource(at).Create(ctx, crd, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	_, err = p.StartSnapshotController(ctx, shared.Dir) // it ends with this process
	return err
})

// newCSIBed is a node with an agent, a driver and its sidecars. In the end, all that tests have made is deleted, and nothing
// may be left.
func newCSIBed(t *testing.T, name string, agent member.Agent, change func(*csidriver.Config), settings ...string) *csiBed {
	t.Helper()
	lab.Need(t, csidriver.Needs()...)
	binary := check.Value(shared.CSIDriver())(t)
	plain, m := joinedAs(t, name, agent, settings...)
	b := &csiBed{bed: plain}
	b.dynamic = check.Value(dynamic.NewForConfig(b.plane.AdminConfig()))(t)
	dir := filepath.Dir(m.Root())
	b.driver = csidriver.Config{
		Name: name + ".csi.test", Node: "node-of-" + name, Dir: filepath.Join(dir, "csi"), Socket: filepath.Join(dir, "csi.sock"),
		Control: filepath.Join(dir, "control.sock"), Registry: filepath.Join(m.Root(), "plugins_registry"), MaxVolumes: 40,
		Segments: map[string]string{name + ".csi.test/zone": "a"},
	}
	if change != nil {
		change(&b.driver)
	}
	b.process = newDriverProcess(t, binary, b.driver)
	check.Fatal(t, snapshots())
	var sidecars *lab.Sidecars
	t.Cleanup(func() { b.endSidecars(t, sidecars) })
	t.Cleanup(func() { b.clean(t) }) // needs them
	b.objects(t)
	b.awaitDriver(t)
	// Last: they ask for the kinds of snapshots, the CSIDriver and the topology in the CSINode when they start, and may not
	// ask again, or fail what they are asked for meanwhile.
	sidecars = check.Value(b.plane.StartSidecars(t.Context(), dir, b.driver.Socket))(t)
	return b
}

// endSidecars ends what runs beside the driver, nil if nothing does.
func (b *csiBed) endSidecars(t *testing.T, s *lab.Sidecars) {
	if s == nil {
		return
	}
	if t.Failed() {
		t.Log(s.LogTails(1500))
		calls, err := b.driver.Calls()
		t.Logf("calls of the driver, %v: %v", err, calls)
	}
	check.Error(t, s.Stop())
}

// newDriverProcess starts a driver, which ends with the test.
func newDriverProcess(t *testing.T, binary string, c csidriver.Config) *plugin {
	t.Helper()
	file, err := c.Write()
	if err == nil {
		err = os.MkdirAll(c.Registry, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check.Error(t, c.Clean()) })
	p := newPlugin(t, filepath.Join(c.Dir, "log"), func() *exec.Cmd { return exec.Command(binary, file) })
	p.start(t)
	check.Fatal(t, lab.Eventually(t.Context(), patience, "the driver serves", c.Serves))
	return p
}

// class is the name of one of the bed's classes.
func (b *csiBed) class(name string) string { return b.name + "-" + name }

// objects makes what an administrator makes of a driver.
func (b *csiBed) objects(t *testing.T) {
	t.Helper()
	modes := []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral}
	d := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: b.driver.Name}, Spec: storagev1.CSIDriverSpec{
		AttachRequired: new(!b.driver.NoAttach), PodInfoOnMount: new(true), VolumeLifecycleModes: modes, FSGroupPolicy: new(storagev1.FileFSGroupPolicy),
	}}
	check.Value(b.admin.StorageV1().CSIDrivers().Create(t.Context(), d, metav1.CreateOptions{}))(t)
	image := func(fs string) map[string]string {
		return map[string]string{"image": "true", "csi.storage.k8s.io/fstype": fs}
	}
	for name, parameters := range map[string]map[string]string{"dir": nil, "late": nil, "image": image("ext4"), "xfs": image("xfs")} {
		binding := storagev1.VolumeBindingImmediate
		if name == "late" {
			binding = storagev1.VolumeBindingWaitForFirstConsumer
		}
		c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: b.class(name)}, Provisioner: b.driver.Name, Parameters: parameters,
			AllowVolumeExpansion: new(true), VolumeBindingMode: &binding}
		check.Value(b.admin.StorageV1().StorageClasses().Create(t.Context(), c, metav1.CreateOptions{}))(t)
	}
	b.createSnapshotting(t, "volumesnapshotclasses", map[string]any{
		"kind": "VolumeSnapshotClass", "metadata": map[string]any{"name": b.name}, "driver": b.driver.Name, "deletionPolicy": "Delete",
	})
}

// snapshotting is the client of a kind of snapshots: of the namespace, but for the class.
func (b *csiBed) snapshotting(kind string) dynamic.ResourceInterface {
	r := b.dynamic.Resource(schema.GroupVersionResource{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: kind})
	if kind == "volumesnapshotclasses" {
		return r
	}
	return r.Namespace(b.name)
}

// createSnapshotting makes such an object. The kind may be new to the apiserver.
func (b *csiBed) createSnapshotting(t *testing.T, kind string, object map[string]any) {
	t.Helper()
	object["apiVersion"] = "snapshot.storage.k8s.io/v1"
	b.await(t, "one of "+kind+" is made", func() error {
		_, err := b.snapshotting(kind).Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
		return err
	})
}

// awaitDriver waits until the cluster knows that the node has the driver.
func (b *csiBed) awaitDriver(t *testing.T) {
	t.Helper()
	b.await(t, "the CSINode has the driver", func() error {
		n := check.Must(b.admin.StorageV1().CSINodes().Get(t.Context(), b.name, metav1.GetOptions{}))
		for _, d := range n.Spec.Drivers {
			if d.Name == b.driver.Name && d.NodeID == b.driver.Node {
				return nil
			}
		}
		return fmt.Errorf("it has %+v", n.Spec.Drivers)
	})
}

// waitAtEnd is how long to wait in the end: not long if it is known already that something is wrong.
func waitAtEnd(t *testing.T) time.Duration {
	if t.Failed() {
		return 20 * time.Second
	}
	return patience
}

// noPods deletes all pods and waits until they are gone.
func (b *csiBed) noPods(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pods := b.admin.CoreV1().Pods(b.name)
	check.Error(t, errors.Join(
		pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		lab.Eventually(ctx, waitAtEnd(t), "no pods", func() error {
			list, err := pods.List(ctx, metav1.ListOptions{})
			if err == nil && len(list.Items) > 0 {
				err = fmt.Errorf("%d of them, such as %s", len(list.Items), list.Items[0].Name)
			}
			return err
		}),
	))
}

// clean deletes what tests have made, as a user does, and looks for what stays.
func (b *csiBed) clean(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	grace := metav1.DeleteOptions{}
	all := metav1.ListOptions{}
	b.noPods(t)
	// The provisioner deletes a volume whose attachment it has not seen yet, and the driver would call that wrong.
	check.Error(t, errors.Join(
		lab.Eventually(ctx, waitAtEnd(t), "no volume is attached", func() error { return b.attached(ctx) }),
		b.snapshotting("volumesnapshots").DeleteCollection(ctx, grace, all),
		b.admin.CoreV1().PersistentVolumeClaims(b.name).DeleteCollection(ctx, grace, all),
		lab.Eventually(ctx, waitAtEnd(t), "nothing is left of any volume", func() error { return b.left(ctx) }),
	))
	calls, err := b.driver.Calls()
	if err != nil {
		t.Error(err)
	}
	for _, c := range calls {
		check.Equal(t, c.Wrong, "", "a call that nobody should make: %v", c)
	}
	storage := b.admin.StorageV1()
	for name, err := range map[string]error{
		"driver":         storage.CSIDrivers().Delete(ctx, b.driver.Name, grace),
		"snapshot class": b.snapshotting("volumesnapshotclasses").Delete(ctx, b.name, grace),
		"dir":            storage.StorageClasses().Delete(ctx, b.class("dir"), grace),
		"late":           storage.StorageClasses().Delete(ctx, b.class("late"), grace),
		"image":          storage.StorageClasses().Delete(ctx, b.class("image"), grace),
		"xfs":            storage.StorageClasses().Delete(ctx, b.class("xfs"), grace),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("delete %s: %v", name, err)
		}
	}
}

// left is an error that says what is left of the driver's volumes, in the cluster, on the node and in the driver.
func (b *csiBed) left(ctx context.Context) (err error) {
	defer check.Return(&err)
	all := metav1.ListOptions{}
	left := check.Must(b.driver.Left())
	volumes := check.Must(b.admin.CoreV1().PersistentVolumes().List(ctx, all))
	for i := range volumes.Items {
		if v := &volumes.Items[i]; v.Spec.CSI != nil && v.Spec.CSI.Driver == b.driver.Name {
			left = append(left, fmt.Sprintf("PersistentVolume %s %s", v.Name, v.Status.Phase))
		}
	}
	if err := b.attached(ctx); err != nil {
		left = append(left, err.Error())
	}
	n := check.Must(b.admin.CoreV1().Nodes().Get(ctx, b.name, metav1.GetOptions{}))
	if len(n.Status.VolumesInUse)+len(n.Status.VolumesAttached) > 0 {
		left = append(left, fmt.Sprintf("in the Node's status: in use %v, attached %v", n.Status.VolumesInUse, n.Status.VolumesAttached))
	}
	onNode, err := b.onNode()
	if left = append(left, onNode...); len(left) > 0 {
		return errors.New(strings.Join(left, "; "))
	}
	return err
}

// attached is nil if no volume of the driver is attached.
func (b *csiBed) attached(ctx context.Context) error {
	attachments, err := b.admin.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var left []string
	for _, a := range attachments.Items {
		if a.Spec.Attacher == b.driver.Name {
			left = append(left, "VolumeAttachment "+a.Name)
		}
	}
	if len(left) > 0 {
		return errors.New(strings.Join(left, "; "))
	}
	return nil
}

// onNode are the directories of volumes and pods below the agent's root directory, and what is mounted there.
func (b *csiBed) onNode() (left []string, err error) {
	for _, pattern := range []string{"pods/*", "plugins/kubernetes.io/csi/*/*", "plugins/kubernetes.io/csi/volumeDevices/*"} {
		found, err := filepath.Glob(filepath.Join(b.Root(), pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range found {
			if path != filepath.Join(b.Root(), "plugins/kubernetes.io/csi/volumeDevices/publish") &&
				path != filepath.Join(b.Root(), "plugins/kubernetes.io/csi/volumeDevices/staging") {
				left = append(left, path)
			}
		}
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, " "+b.Root()+"/") && !strings.Contains(line, " "+b.Root()+"/device-plugins ") {
			left = append(left, "mount "+strings.TrimSpace(line))
		}
	}
	return left, err
}

// calls are the calls of a method for a volume that the driver has answered with OK. An empty volume stands for any.
func (b *csiBed) calls(t *testing.T, method, volume string) (out []csidriver.Call) {
	t.Helper()
	all := check.Value(b.driver.Calls())(t)
	for _, c := range all {
		if c.Method == method && (volume == "" || c.Volume == volume) && c.Code == "OK" {
			out = append(out, c)
		}
	}
	return out
}

// claimSpec wants a volume of a class.
func (b *csiBed) claimSpec(class, size string, change ...func(*v1.PersistentVolumeClaimSpec)) v1.PersistentVolumeClaimSpec {
	s := v1.PersistentVolumeClaimSpec{
		StorageClassName: new(b.class(class)), AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}},
	}
	for _, f := range change {
		f(&s)
	}
	return s
}

// wants makes a claim.
func (b *csiBed) wants(t *testing.T, name, class, size string, change ...func(*v1.PersistentVolumeClaimSpec)) {
	t.Helper()
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: b.claimSpec(class, size, change...)}
	check.Value(b.admin.CoreV1().PersistentVolumeClaims(b.name).Create(t.Context(), c, metav1.CreateOptions{}))(t)
}

// bound is the PersistentVolume of a claim, once it has one.
func (b *csiBed) bound(t *testing.T, claim string) *v1.PersistentVolume {
	t.Helper()
	var pv *v1.PersistentVolume
	b.await(t, "claim "+claim+" is bound", func() error {
		c, err := b.admin.CoreV1().PersistentVolumeClaims(b.name).Get(t.Context(), claim, metav1.GetOptions{})
		if err == nil && c.Status.Phase != v1.ClaimBound {
			err = fmt.Errorf("it is %s", c.Status.Phase)
		}
		if err == nil {
			pv, err = b.admin.CoreV1().PersistentVolumes().Get(t.Context(), c.Spec.VolumeName, metav1.GetOptions{})
		}
		return err
	})
	return pv
}

// handle is the driver's name of a claim's volume.
func (b *csiBed) handle(t *testing.T, claim string) string {
	t.Helper()
	return b.bound(t, claim).Spec.CSI.VolumeHandle
}

// using has a pod mount a claim at /v.
func using(claim string, mounts ...func(*v1.VolumeMount)) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) {
		s.Volumes = append(s.Volumes, volume("v", v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}))
		s.Containers[0].VolumeMounts = append(s.Containers[0].VolumeMounts, mounted("v", mounts...))
	}
}

// runs makes a pod, and waits until it is ready.
func (b *csiBed) runs(t *testing.T, name string, change ...func(*v1.PodSpec)) *v1.Pod {
	t.Helper()
	b.create(t, b.pod(name, changes(change...)))
	return b.awaitPod(t, name, "is ready", ready)
}

// said logs what a user is told of a pod, by kubectl describe.
func (b *csiBed) said(t *testing.T, name string) {
	t.Helper()
	lines, err := b.verdict(t.Context(), name)
	if err != nil {
		t.Error(err)
	}
	t.Logf("of pod %s, users are told:\n%s", name, strings.Join(lines, "\n"))
}

// ends deletes a pod, and waits until it is gone.
func (b *csiBed) ends(t *testing.T, name string) {
	t.Helper()
	b.remove(t, name)
	b.awaitGone(t, name)
}
