package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/csidriver"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// disks are a CSI driver of a node, and its volumes. The benchmark plays the controllers of storage: each volume has its
// claim, of the same name, and both are bound and attached before a pod wants them.
type disks struct {
	csidriver.Config
	node    *joined
	process *lab.Process
	volumes []string
}

// newDisks starts a driver, makes a volume for each name, and waits until the node shows the driver. end comes last. mock:
// it is the mock driver of Kubernetes, which attaches nothing, and its volumes have to be expanded by the node.
func (r *joined) newDisks(ctx context.Context, kind string, mock bool, volumes []string) (_ *disks, err error) {
	defer check.Return(&err)
	dir := filepath.Dir(r.Root())
	d := &disks{node: r, volumes: volumes, Config: csidriver.Config{
		Name: kind + "." + r.Node() + ".test", Node: r.Node(), Dir: filepath.Join(dir, kind), Socket: filepath.Join(dir, kind+".sock"),
		Control: filepath.Join(dir, kind+"-control.sock"), Registry: filepath.Join(r.Root(), "plugins_registry"),
		Mock: mock, NoAttach: mock,
	}}
	defer func() {
		check.Ended(recover(), &err)
		if err != nil {
			d.end(&err)
		}
	}()
	check.OK(d.start(ctx))
	object := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: d.Name}, Spec: storagev1.CSIDriverSpec{
		AttachRequired: new(!d.NoAttach), PodInfoOnMount: new(true),
	}}
	if mock {
		object.Spec.NodeAllocatableUpdatePeriodSeconds = new(int64(10)) // so often NodeGetInfo is called
	}
	check.Must(r.client.StorageV1().CSIDrivers().Create(ctx, object, metav1.CreateOptions{}))
	conn := check.Must(grpc.NewClient("unix://"+d.Socket, grpc.WithTransportCredentials(insecure.NewCredentials())))
	defer conn.Close()
	controller := csi.NewControllerClient(conn)
	check.OK(each(volumes, func(name string) error { return d.volume(ctx, controller, name) }))
	if !d.NoAttach {
		check.OK(d.attached(ctx))
	}
	return d, lab.Eventually(ctx, podPatience, "node "+r.Node()+" shows its CSI driver", func() error {
		n, err := r.client.StorageV1().CSINodes().Get(ctx, r.Node(), metav1.GetOptions{})
		if err == nil && !slices.ContainsFunc(n.Spec.Drivers, func(o storagev1.CSINodeDriver) bool { return o.Name == d.Name }) {
			err = fmt.Errorf("it shows %v", n.Spec.Drivers)
		}
		return err
	})
}

// start runs the driver in a process of its own.
func (d *disks) start(ctx context.Context) (err error) {
	defer check.Return(&err)
	binary := check.Must(lab.BuildCSIDriver(ctx, d.node.repository))
	file, err := d.Write()
	if err == nil {
		err = os.MkdirAll(d.Registry, 0o755)
	}
	if err != nil {
		return err
	}
	log := check.Must(os.Create(filepath.Join(d.Dir, "log")))
	defer log.Close()
	cmd := exec.Command(binary, file)
	cmd.Stdout, cmd.Stderr = log, log
	d.process = check.Must(lab.StartProcess(cmd))
	return lab.Eventually(ctx, podPatience, "the CSI driver serves", d.Serves)
}

// volume makes a volume with its claim, bound and attached.
func (d *disks) volume(ctx context.Context, controller csi.ControllerClient, name string) (err error) {
	defer check.Return(&err)
	capability := &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
	made := check.Must(controller.CreateVolume(ctx, &csi.CreateVolumeRequest{
		Name: d.pv(name), CapacityRange: &csi.CapacityRange{RequiredBytes: 16 << 20},
		VolumeCapabilities: []*csi.VolumeCapability{capability},
	}))
	of := made.GetVolume()
	core := d.node.client.CoreV1()
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("16Mi")}
	modes := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	claim := check.Must(core.PersistentVolumeClaims("default").Create(ctx, &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: new(""), AccessModes: modes, VolumeName: d.pv(name), Resources: v1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{}))
	check.Must(core.PersistentVolumes().Create(ctx, &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: d.pv(name)}, Spec: v1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
			ClaimRef: &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "default", Name: name, UID: claim.UID},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
				Driver: d.Name, VolumeHandle: of.GetVolumeId(), VolumeAttributes: of.GetVolumeContext(),
			}},
		},
	}, metav1.CreateOptions{}))
	if d.Mock {
		size = v1.ResourceList{v1.ResourceStorage: resource.MustParse(smaller)}
	}
	claim.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: modes, Capacity: size}
	if _, err = core.PersistentVolumeClaims("default").UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil || d.NoAttach {
		return err
	}
	attached := check.Must(controller.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{
		VolumeId: of.GetVolumeId(), NodeId: d.Node, VolumeCapability: capability, VolumeContext: of.GetVolumeContext(),
	}))
	attachments := d.node.client.StorageV1().VolumeAttachments()
	attachment := check.Must(attachments.Create(ctx, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: decide.AttachmentName(decide.Key{Driver: d.Name, Handle: of.GetVolumeId()}, d.Node)},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: d.Name, NodeName: d.Node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new(d.pv(name))},
		},
	}, metav1.CreateOptions{}))
	attachment.Status = storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: attached.GetPublishContext()}
	_, err = attachments.UpdateStatus(ctx, attachment, metav1.UpdateOptions{})
	return err
}

// smaller is the size that a claim says its volume has, which the node has to expand then.
const smaller = "8Mi"

// shrunk has a claim say that its volume is smaller than it is.
func (d *disks) shrunk(ctx context.Context, name string) error {
	patch := []byte(`{"status":{"capacity":{"storage":"` + smaller + `"}}}`)
	_, err := d.node.client.CoreV1().PersistentVolumeClaims("default").Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

func (d *disks) pv(name string) string { return d.Node + "-" + name }

// attached has the Node say that all volumes are attached.
func (d *disks) attached(ctx context.Context) error {
	all, err := d.node.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var names []v1.AttachedVolume
	for _, v := range all.Items {
		if v.Spec.CSI != nil && v.Spec.CSI.Driver == d.Name {
			names = append(names, v1.AttachedVolume{Name: decide.Key{Driver: d.Name, Handle: v.Spec.CSI.VolumeHandle}.UniqueName()})
		}
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"volumesAttached": names}})
	if err == nil {
		_, err = d.node.client.CoreV1().Nodes().Patch(ctx, d.Node, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	return err
}

// with has a pod mount the volume of its name.
func (*disks) with(p *v1.Pod) {
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "disk", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: p.Name},
	}})
	c := &p.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "disk", MountPath: "/disk"})
}

// unused waits until nothing of the driver is on the node.
func (d *disks) unused(ctx context.Context) error {
	return lab.Eventually(ctx, allPatience, "nothing of the CSI driver is in use", func() error {
		left := check.Must(filepath.Glob(filepath.Join(d.node.Root(), "plugins/kubernetes.io/csi", d.Name, "*")))
		for _, name := range d.volumes {
			found := check.Must(filepath.Glob(filepath.Join(d.node.Root(), "pods/*/volumes/kubernetes.io~csi", d.pv(name))))
			left = append(left, found...)
		}
		n, err := d.node.client.CoreV1().Nodes().Get(ctx, d.Node, metav1.GetOptions{})
		if err == nil && len(left)+len(n.Status.VolumesInUse) > 0 {
			err = fmt.Errorf("%d directories, and %d volumes in use", len(left), len(n.Status.VolumesInUse))
		}
		return err
	})
}

// end removes all that is of the driver. A volume that is used still is unmounted.
func (d *disks) end(err *error) {
	check.Ended(recover(), err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := d.node.client
	gone := func(e error) {
		if !apierrors.IsNotFound(e) {
			*err = errors.Join(*err, e)
		}
	}
	free := []byte(`{"metadata":{"finalizers":null}}`) // those of controllers, which do not run here
	*err = errors.Join(*err, each(d.volumes, func(name string) error {
		core, now := client.CoreV1(), metav1.DeleteOptions{}
		_, claim := core.PersistentVolumeClaims("default").Patch(ctx, name, types.MergePatchType, free, metav1.PatchOptions{})
		_, volume := core.PersistentVolumes().Patch(ctx, d.pv(name), types.MergePatchType, free, metav1.PatchOptions{})
		var all error
		for _, e := range []error{claim, volume, core.PersistentVolumeClaims("default").Delete(ctx, name, now), core.PersistentVolumes().Delete(ctx, d.pv(name), now)} {
			if !apierrors.IsNotFound(e) {
				all = errors.Join(all, e)
			}
		}
		return all
	}))
	attachments, e := client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	gone(e)
	if e == nil {
		for _, a := range attachments.Items {
			if a.Spec.Attacher == d.Name {
				gone(client.StorageV1().VolumeAttachments().Delete(ctx, a.Name, metav1.DeleteOptions{}))
			}
		}
	}
	gone(client.StorageV1().CSIDrivers().Delete(ctx, d.Name, metav1.DeleteOptions{}))
	if d.process != nil {
		*err = errors.Join(*err, d.process.End(ctx, syscall.SIGTERM, podPatience))
	}
	*err = errors.Join(*err, d.Clean())
}

// work is what a driver did in some time.
type work struct {
	calls int
	// busy is how long any call was under way, sum that of all calls added up.
	busy, sum time.Duration
	// last is when the last call ended.
	last time.Time
}

// since is what the driver did since a time, by its own record. Calls that it should not have got are faults.
func (d *disks) since(begin time.Time) (w work, err error) {
	all, err := d.Calls()
	if err != nil {
		return w, err
	}
	slices.SortFunc(all, func(a, b csidriver.Call) int { return a.Began.Compare(b.Began) })
	for _, c := range all {
		if !strings.HasPrefix(c.Method, "Node") || c.Began.Before(begin) {
			continue
		}
		if c.Wrong != "" || c.Code != "OK" {
			d.node.say("  %s: %v", d.node.agent.Name, c)
			if d.node.agent.Name == troupeName {
				d.node.fault("a call of the CSI driver: %v", c)
			}
		}
		end := c.Began.Add(c.Took)
		w.calls++
		w.sum += c.Took
		if from := c.Began; end.After(w.last) {
			if from.Before(w.last) {
				from = w.last
			}
			w.busy += end.Sub(from)
			w.last = end
		}
	}
	return w, nil
}
