package sim

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestCSIVolume: a pod with a volume of a simulated CSI driver runs once a controller has attached it, goes on while the
// agent is killed and the machine loses its power, and leaves nothing.
func TestCSIVolume(t *testing.T) {
	w := newWorld(t, 0)
	const driver = "disks.example.com"
	n := check.Value(w.AddNode(NodeSpec{Name: "n", CSI: map[string]machine.CSIDriver{driver: {
		MaxVolumes: 4, Topology: map[string]string{"topology.example.com/zone": "a"}, Boot: time.Second,
	}}}))(t)
	w.Advance(5 * time.Second)
	create := func(o port.APIObject) port.APIObject {
		t.Helper()
		return check.Value(w.API().Create(o))(t)
	}
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	once := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	create(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(true)}})
	claim := create(&v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "default"},
		Spec:       v1.PersistentVolumeClaimSpec{VolumeName: "pv", AccessModes: once, Resources: v1.VolumeResourceRequirements{Requests: size}},
	}).(*v1.PersistentVolumeClaim)
	bound := *claim
	bound.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, Capacity: size, AccessModes: once}
	check.Value(w.API().UpdateStatus(&bound))(t)
	create(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: v1.PersistentVolumeSpec{
		Capacity: size, AccessModes: once, ClaimRef: &v1.ObjectReference{Namespace: "default", Name: "data", UID: claim.UID},
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h"}},
	}})
	pod := create(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}, Spec: v1.PodSpec{
		NodeName: "n", Containers: []v1.Container{{Name: "app", Image: "registry.test/app:1", VolumeMounts: []v1.VolumeMount{{Name: "v", MountPath: "/v"}}}},
		Volumes: []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}},
	}}).(*v1.Pod)
	key := csi.Key{Driver: driver, Handle: "h"}
	node := func() *v1.Node {
		o := check.Value(w.API().Get(port.APIKey{Kind: port.NodeKind, Name: "n"}))(t)
		return o.(*v1.Node)
	}
	w.until(t, time.Minute, "the volume is in use", func() bool { return slices.Contains(node().Status.VolumesInUse, key.UniqueName()) })
	if node().Labels["topology.example.com/zone"] != "a" || len(n.Machine().CSI.Places()) != 0 {
		t.Errorf("labels %v, places %v", node().Labels, n.Machine().CSI.Places())
	}
	o, err := w.API().Get(port.APIKey{Kind: port.CSINodeKind, Name: "n"})
	if err != nil || *o.(*storagev1.CSINode).Spec.Drivers[0].Allocatable.Count != 4 {
		t.Errorf("CSINode %v, %v", o, err)
	}
	attachment := create(&storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: csi.AttachmentName(key, "n")},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv")}},
	}).(*storagev1.VolumeAttachment)
	attached := *attachment
	attached.Status = storagev1.VolumeAttachmentStatus{Attached: true}
	check.Value(w.API().UpdateStatus(&attached))(t)
	with := *node()
	with.Status.VolumesAttached = []v1.AttachedVolume{{Name: key.UniqueName()}}
	check.Value(w.API().UpdateStatus(&with))(t)
	w.untilReady(t, 1)
	mounted := func() (out int) {
		for _, p := range n.Machine().CSI.Places() {
			if p.Mounted {
				out++
			}
		}
		return out
	}
	if mounted() != 2 {
		t.Errorf("places %+v", n.Machine().CSI.Places())
	}
	n.RestartAgent()
	w.Advance(time.Minute)
	if w.Ready() != 1 || w.Metrics().Restarts > 0 {
		t.Errorf("after a kill of the agent: %+v", w.Metrics())
	}
	n.PowerOff()
	if mounted() != 0 || len(n.Machine().CSI.Places()) != 2 {
		t.Errorf("without power: places %+v", n.Machine().CSI.Places())
	}
	w.Advance(time.Second)
	n.PowerOn()
	w.until(t, 5*time.Minute, "the volume is back", func() bool { return w.Ready() == 1 && mounted() == 2 })
	check.Fatal(t, w.API().Delete(port.APIDelete{Key: port.APIKeyOf(pod)}))
	w.until(t, 5*time.Minute, "all is gone", func() bool {
		return w.Pods().Len() == 0 && len(n.Machine().CSI.Places()) == 0 && len(node().Status.VolumesInUse) == 0
	})
}
