package csi_test

import (
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/csi"
)

// TestPersistent: each migrated kind has its driver and handle, and its topology. Other kinds stay as they are.
func TestPersistent(t *testing.T) {
	zone := &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelFailureDomainBetaZone, Operator: v1.NodeSelectorOpIn, Values: []string{"a"}}},
	}}}}
	for name, c := range map[string]struct {
		source                   v1.PersistentVolumeSource
		driver, handle, topology string
	}{
		"ebs": {v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://a/vol-1", FSType: "xfs"}},
			"ebs.csi.aws.com", "vol-1", "topology.ebs.csi.aws.com/zone"},
		"gce": {v1.PersistentVolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "d"}},
			"pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d", "topology.gke.io/zone"},
		"azure disk": {v1.PersistentVolumeSource{AzureDisk: &v1.AzureDiskVolumeSource{DiskName: "d", DataDiskURI: "/subscriptions/d"}},
			"disk.csi.azure.com", "/subscriptions/d", v1.LabelFailureDomainBetaZone},
		"azure file": {v1.PersistentVolumeSource{AzureFile: &v1.AzureFilePersistentVolumeSource{ShareName: "s", SecretName: "secret", SecretNamespace: new("ns")}},
			"file.csi.azure.com", "#secret#s#pv#ns", v1.LabelFailureDomainBetaZone},
		"cinder": {v1.PersistentVolumeSource{Cinder: &v1.CinderPersistentVolumeSource{VolumeID: "c"}},
			"cinder.csi.openstack.org", "c", "topology.cinder.csi.openstack.org/zone"},
		"vsphere": {v1.PersistentVolumeSource{VsphereVolume: &v1.VsphereVirtualDiskVolumeSource{VolumePath: "[ds] v.vmdk"}},
			"csi.vsphere.vmware.com", "[ds] v.vmdk", "topology.csi.vmware.com/zone"},
		"portworx": {v1.PersistentVolumeSource{PortworxVolume: &v1.PortworxVolumeSource{VolumeID: "p"}}, "pxd.portworx.com", "p", v1.LabelFailureDomainBetaZone},
		"nfs":      {v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{}}, "", "", ""},
		"flex":     {v1.PersistentVolumeSource{FlexVolume: &v1.FlexPersistentVolumeSource{Driver: "x/y"}}, "", "", ""},
		"csi":      {v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "x", VolumeHandle: "y"}}, "x", "y", v1.LabelFailureDomainBetaZone},
	} {
		pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: c.source, NodeAffinity: zone.DeepCopy()}}
		before := pv.DeepCopy()
		out, err := csi.Migrated(pv)
		if err != nil || !reflect.DeepEqual(pv, before) {
			t.Errorf("%s: %v, and the object is now %+v", name, err, pv)
			continue
		}
		if c.driver == "" {
			if out != pv {
				t.Errorf("%s: it is %+v", name, out)
			}
			continue
		}
		if s := out.Spec.CSI; s == nil || s.Driver != c.driver || s.VolumeHandle != c.handle || out.Name != "pv" {
			t.Errorf("%s: it is %s with %+v", name, out.Name, s)
		}
		if key := out.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Key; key != c.topology {
			t.Errorf("%s: its topology is %s", name, key)
		}
	}
	bad := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{
		AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://a/b/c"},
	}}}
	if _, err := csi.Migrated(bad); err == nil || !strings.Contains(err.Error(), "PersistentVolume pv can't be translated to its CSI driver") {
		t.Errorf("a bad one: %v", err)
	}
}

// TestInline: a volume of a pod stands for a PersistentVolume of the disk.
func TestInline(t *testing.T) {
	of := func(s v1.VolumeSource) (*v1.PersistentVolume, error) {
		return csi.MigratedInline(&v1.Volume{Name: "v", VolumeSource: s}, "ns")
	}
	pv, err := of(v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1", ReadOnly: true}})
	if err != nil || pv.Name != "ebs.csi.aws.com-vol-1" || pv.Spec.CSI.VolumeHandle != "vol-1" || !pv.Spec.CSI.ReadOnly || *pv.Spec.VolumeMode != v1.PersistentVolumeFilesystem {
		t.Errorf("%v %+v", err, pv)
	}
	pv, err = of(v1.VolumeSource{AzureFile: &v1.AzureFileVolumeSource{SecretName: "s", ShareName: "x"}})
	if err != nil || pv.Spec.CSI.NodeStageSecretRef.Name != "s" || pv.Spec.CSI.NodeStageSecretRef.Namespace != "ns" {
		t.Errorf("azureFile: %v %+v", err, pv)
	}
	// The library panics for it.
	disk := &v1.VsphereVirtualDiskVolumeSource{VolumePath: "[ds] v.vmdk", StoragePolicyName: "gold"}
	pv, err = of(v1.VolumeSource{VsphereVolume: disk})
	if err != nil || pv.Spec.CSI.VolumeHandle != "[ds] v.vmdk" || pv.Spec.CSI.VolumeAttributes["storagepolicyname"] != "gold" ||
		disk.StoragePolicyName != "gold" {
		t.Errorf("vsphereVolume: %v %+v", err, pv)
	}
	for _, other := range []v1.VolumeSource{{FlexVolume: &v1.FlexVolumeSource{}}, {EmptyDir: &v1.EmptyDirVolumeSource{}}, {}} {
		if pv, err := of(other); pv != nil || err != nil {
			t.Errorf("%+v: %v %+v", other, err, pv)
		}
	}
	if _, err := of(v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://a/b/c"}}); err == nil || !strings.Contains(err.Error(), "volume v can't be translated") {
		t.Errorf("a bad one: %v", err)
	}
}

// TestNoted: the annotation names all migrated kinds, in the place of what an older agent wrote. Others stay.
func TestNoted(t *testing.T) {
	const all = "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder,kubernetes.io/gce-pd,kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume"
	have := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"x": "y", v1.MigratedPluginsAnnotationKey: "kubernetes.io/aws-ebs"}}}
	out, differs := csi.MigrationNoted(have)
	if !differs || out.Annotations[v1.MigratedPluginsAnnotationKey] != all || out.Annotations["x"] != "y" || have.Annotations[v1.MigratedPluginsAnnotationKey] == all {
		t.Errorf("%v %v", differs, out.Annotations)
	}
	if again, differs := csi.MigrationNoted(out); differs || again != out {
		t.Error("it differs from itself")
	}
	if _, differs := csi.MigrationNoted(&storagev1.CSINode{}); !differs {
		t.Error("an empty one is as it should be")
	}
}
