package cluster

import (
	"errors"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/csidriver"
)

// TestCSIMigration: volumes of a kind whose driver was in Kubernetes itself are those of its CSI driver: of a
// PersistentVolume with the zone of that time, and in the spec of a pod. Attaching is up to the real controllers.
//
//tier:all sidecars of third parties
func TestCSIMigration(t *testing.T) {
	t.Parallel()
	const ebs = "ebs.csi.aws.com"
	b := newCSIBed(t, "csi-migration", csiAgent(t), func(c *csidriver.Config) {
		c.Name, c.Segments = ebs, map[string]string{"topology.ebs.csi.aws.com/zone": "a"}
	})
	n := check.Value(b.admin.StorageV1().CSINodes().Get(t.Context(), b.name, metav1.GetOptions{}))(t)
	const all = "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder,kubernetes.io/gce-pd,kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume"
	check.Count(t, n.Annotations[v1.MigratedPluginsAnnotationKey], all, "the CSINode says that %q are migrated")
	conn := check.Value(grpc.NewClient("unix://"+b.driver.Socket, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	controller := csi.NewControllerClient(conn)
	// disk makes a volume that no cluster knows.
	disk := func(name string) string {
		t.Helper()
		r := check.Value(controller.CreateVolume(t.Context(), &csi.CreateVolumeRequest{
			Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: 32 << 20}, Parameters: map[string]string{"image": "true"},
			VolumeCapabilities: []*csi.VolumeCapability{{
				AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
				AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ext4"}},
			}},
		}))(t)
		return r.GetVolume().GetVolumeId()
	}
	claimed, inline := disk("claimed"), disk("inline")
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("32Mi")}
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "old-disk"},
		Spec: v1.PersistentVolumeSpec{
			Capacity: size, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{
				VolumeID: claimed, FSType: "ext4",
			}},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{"a"}}},
			}}}},
		},
	}
	check.Value(b.admin.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{}))(t)
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: v1.PersistentVolumeClaimSpec{
		StorageClassName: new(""), VolumeName: pv.Name, AccessModes: pv.Spec.AccessModes, Resources: v1.VolumeResourceRequirements{Requests: size},
	}}
	check.Value(b.admin.CoreV1().PersistentVolumeClaims(b.name).Create(t.Context(), claim, metav1.CreateOptions{}))(t)
	b.bound(t, "old")
	p := b.runs(t, "claimed", using("old"), work("append /v/log x then sleep"))
	b.awaitText(t, b.inside(t, p, "/v/log"), "x\n")
	q := b.runs(t, "inline", work("append /v/log y then sleep"), func(s *v1.PodSpec) {
		s.Volumes = []v1.Volume{volume("v", v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: inline, FSType: "ext4"}})}
		s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("v")}
	})
	b.awaitText(t, b.inside(t, q, "/v/log"), "y\n")
	for handle, pod := range map[string]*v1.Pod{claimed: p, inline: q} {
		if kind, _ := mountType(t, b.inside(t, pod, "/v")); kind != "ext4" {
			t.Errorf("/v of pod %s is %s", pod.Name, kind)
		}
		if calls := b.calls(t, "NodeStageVolume", handle); len(calls) != 1 || calls[0].Context["partition"] != "0" {
			t.Errorf("the volume of pod %s was staged so: %+v", pod.Name, calls)
		}
	}
	inUse := b.node(t).Status.VolumesInUse
	if len(inUse) != 2 || !strings.HasPrefix(string(inUse[0]), "kubernetes.io/csi/"+ebs+"^") {
		t.Errorf("the Node has %v in use", inUse)
	}
	b.ends(t, "inline")
	b.ends(t, "claimed")
	check.Error(t, errors.Join(
		b.admin.CoreV1().PersistentVolumeClaims(b.name).Delete(t.Context(), "old", metav1.DeleteOptions{}),
		b.admin.CoreV1().PersistentVolumes().Delete(t.Context(), pv.Name, metav1.DeleteOptions{}),
	))
	// To delete a volume that is attached would be a call that nobody should make.
	b.await(t, "no volume is attached", func() error { return b.attached(t.Context()) })
	for _, handle := range []string{claimed, inline} {
		if _, err := controller.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: handle}); err != nil {
			t.Errorf("delete volume %s: %v", handle, err)
		}
	}
}
