package volumeplan

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/podtest"
)

type world struct {
	pod   *v1.Pod
	claim *v1.PersistentVolumeClaim
	pv    *v1.PersistentVolume
	// absent: the apiserver has no such claim; late: nobody has answered for the volume.
	absent, late bool
}

func newWorld() *world {
	return &world{
		pod: &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1"},
			Spec: v1.PodSpec{
				Containers: []v1.Container{{Name: "main", VolumeMounts: []v1.VolumeMount{{Name: "data"}}}},
				Volumes: []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
					PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c", ReadOnly: true},
				}}},
			},
		},
		claim: &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "c", UID: "c1"},
			Spec:       v1.PersistentVolumeClaimSpec{VolumeName: "pv"}, Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
		},
		pv: &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: v1.PersistentVolumeSpec{ClaimRef: &v1.ObjectReference{UID: "c1"}}},
	}
}

func (w *world) objects() podobjects.Set {
	claim := podobjects.Entry{Ref: podobjects.Ref{Kind: podobjects.Claim, Namespace: "shop", Name: w.claim.Name}, State: podobjects.Found, Object: w.claim}
	if w.absent {
		claim.State, claim.Object = podobjects.Missing, nil
	}
	pv := podobjects.Entry{Ref: podobjects.Ref{Kind: podobjects.Volume, Name: "pv"}, State: podobjects.Found, Object: w.pv}
	if w.late {
		pv.State, pv.Object = podobjects.Unknown, nil
	}
	return podobjects.NewSet([]podobjects.Entry{claim, pv})
}

func TestClaims(t *testing.T) {
	block, yes := v1.PersistentVolumeBlock, true
	ephemeral := func(w *world) {
		w.pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}
		w.claim.Name = "web-data"
	}
	for _, c := range []struct {
		name   string
		change func(*world)
		want   string
		state  podobjects.State
	}{
		{"bound", func(*world) {}, "", podobjects.Found},
		{"no such claim", func(w *world) { w.absent = true }, `error processing PVC shop/c: persistentvolumeclaim "c" not found`, podobjects.Missing},
		{"not bound", func(w *world) { w.claim.Status.Phase, w.claim.Spec.VolumeName = v1.ClaimPending, "" }, `error processing PVC shop/c: PVC is not bound: its phase is "Pending"`, podobjects.Failed},
		{"the volume is not known yet", func(w *world) { w.late = true }, "error processing PVC shop/c: persistentvolume pv is not known yet", podobjects.Unknown},
		{"bound to another claim of that name", func(w *world) { w.pv.Spec.ClaimRef.UID = "c0" }, "error processing PVC shop/c: found PV object pv but its pv.Spec.ClaimRef.UID c0 does not point to claim.UID c1", podobjects.Failed},
		{"bound to none", func(w *world) { w.pv.Spec.ClaimRef = nil }, "error processing PVC shop/c: found PV object pv but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim", podobjects.Failed},
		{"without a volume", func(w *world) { w.claim.Spec.VolumeName = "" }, "error processing PVC shop/c: PVC has empty pvc.Spec.VolumeName", podobjects.Failed},
		{"being deleted", func(w *world) { w.claim.DeletionTimestamp = &metav1.Time{} }, "error processing PVC shop/c: PVC is being deleted", podobjects.Failed},
		{"being deleted, with another finalizer", func(w *world) {
			w.claim.DeletionTimestamp, w.claim.Finalizers = &metav1.Time{}, []string{"example.com/other"}
		}, "error processing PVC shop/c: PVC is being deleted", podobjects.Failed},
		{"being deleted while pods use it", func(w *world) {
			w.claim.DeletionTimestamp, w.claim.Finalizers = &metav1.Time{}, []string{"kubernetes.io/pvc-protection"}
		}, "", podobjects.Found},
		{"a device", func(w *world) {
			w.pv.Spec.VolumeMode, w.pv.Spec.PersistentVolumeSource = &block, v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{}}
			w.pod.Spec.Containers[0].VolumeMounts, w.pod.Spec.Containers[0].VolumeDevices = nil, []v1.VolumeDevice{{Name: "data"}}
		}, "", podobjects.Found},
		{"a device of a kind without", func(w *world) {
			w.pv.Spec.VolumeMode, w.pv.Spec.PersistentVolumeSource = &block, v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{}}
		}, "PV pv has volumeMode Block, which is for local volumes on devices, iSCSI, Fibre Channel and CSI drivers: use volumeMode Filesystem", podobjects.Failed},
		{"ephemeral, of another pod", ephemeral, "PVC shop/web-data was not created for pod shop/web (pod is not owner)", podobjects.Failed},
		{"ephemeral", func(w *world) {
			ephemeral(w)
			w.claim.OwnerReferences = []metav1.OwnerReference{{UID: "u1", Controller: &yes}}
		}, "", podobjects.Found},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			c.change(w)
			m := Plan(w.pod, w.objects(), nil, nil)[0]
			text := ""
			if m.Err != nil {
				text = m.Err.Error()
			}
			if text != c.want || podobjects.StateOf(m.Err) != c.state || (m.Persistent == w.pv) != (c.want == "") {
				t.Errorf("got %q, %v, %v; want %q", text, podobjects.StateOf(m.Err), m.Persistent, c.want)
			}
			if c.want == "" && m.ReadOnly != (w.pod.Spec.Volumes[0].PersistentVolumeClaim != nil) {
				t.Errorf("read-only: %v", m.ReadOnly)
			}
		})
	}
}

// What a volume holds is told apart by its version, and volumes without content have none.
func TestVersions(t *testing.T) {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "1"}},
		Spec: v1.PodSpec{Volumes: []v1.Volume{
			{Name: "labels", VolumeSource: v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
				{Path: "labels", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
			}}}},
			{Name: "empty", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		}},
	}
	versions := func() (uint64, uint64) {
		podtest.UseVolumes(&pod.Spec)
		m := Plan(pod, podobjects.Standalone(), nil, nil)
		return m[0].Version, m[1].Version
	}
	first, none := versions()
	again, _ := versions()
	pod.Labels["a"] = "2"
	other, _ := versions()
	if first == 0 || none != 0 || again != first || other == first {
		t.Error(first, none, again, other)
	}
}

// Files in memory have the room of an emptyDir in memory (EmptyDirSize), those on the disk no limit.
func TestSizeOfFiles(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{
		Containers: []v1.Container{{Name: "app"}},
		Volumes: []v1.Volume{
			{Name: "labels", VolumeSource: v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{}}},
			{Name: "secret", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s", Optional: new(true)}}},
			{Name: "map", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
				LocalObjectReference: v1.LocalObjectReference{Name: "m"}, Optional: new(true),
			}}},
			{Name: "gone", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "gone"}}},
		},
	}}
	podtest.UseVolumes(&pod.Spec)
	for limit, want := range map[string]int64{"": 1 << 30, "64Mi": 64 << 20, "4Gi": 1 << 30} {
		if limit != "" {
			pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse(limit)}
		}
		none := podobjects.NewSet([]podobjects.Entry{
			{Ref: podobjects.Ref{Kind: podobjects.ConfigMap, Name: "m"}, State: podobjects.Missing},
			{Ref: podobjects.Ref{Kind: podobjects.Secret, Name: "gone"}, State: podobjects.Missing},
			{Ref: podobjects.Ref{Kind: podobjects.Secret, Name: "s"}, State: podobjects.Missing},
		})
		m := Plan(pod, none, v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}, nil)
		check.Same(t, []int64{m[0].Size, m[1].Size, m[2].Size, m[3].Size}, []int64{want, want, 0, 0}, "limit %q: sizes", limit)
	}
}

// TestMigrated: a volume of a kind whose driver was in Kubernetes itself is that of its CSI driver, with a claim and
// without. A kind that has none is left to the host, which refuses it.
func TestMigrated(t *testing.T) {
	w := newWorld()
	w.pv.Spec.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1", FSType: "xfs"}
	w.pod.Spec.Volumes = append(w.pod.Spec.Volumes,
		v1.Volume{Name: "inline", VolumeSource: v1.VolumeSource{Cinder: &v1.CinderVolumeSource{VolumeID: "c", ReadOnly: true}}},
		v1.Volume{Name: "secret", VolumeSource: v1.VolumeSource{AzureFile: &v1.AzureFileVolumeSource{SecretName: "s", ShareName: "x"}}},
		v1.Volume{Name: "bad", VolumeSource: v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://a/b/c"}}},
		v1.Volume{Name: "flex", VolumeSource: v1.VolumeSource{FlexVolume: &v1.FlexVolumeSource{Driver: "x/y"}}},
	)
	podtest.UseVolumes(&w.pod.Spec)
	all := Plan(w.pod, w.objects(), nil, nil)
	if s := all[0].CSI; all[0].Err != nil || s == nil || s.Driver != "ebs.csi.aws.com" || s.Handle != "vol-1" || s.Name != "pv" || s.FSType != "xfs" || !s.ReadOnly {
		t.Errorf("with a claim: %+v, %v", s, all[0].Err)
	}
	if s := all[1].CSI; all[1].Err != nil || s == nil || s.Driver != "cinder.csi.openstack.org" || s.Inline || !s.ReadOnly || s.Name != "cinder.csi.openstack.org-c" {
		t.Errorf("without: %+v, %v", s, all[1].Err)
	}
	check.Says(t, all[2].Err, "nodeStageSecretRef shop/s", "with a secret that is not known")
	check.Says(t, all[3].Err, "volume bad can't be translated to its CSI driver", "a bad one")
	if all[4].CSI != nil || all[4].Err != nil {
		t.Errorf("flexVolume: %+v", all[4])
	}
	refs := podobjects.Refs(w.pod, w.objects())
	if !slices.ContainsFunc(refs, func(r podobjects.Ref) bool {
		return r.Kind == podobjects.Secret && r.Name == "s" && r.Namespace == "shop"
	}) {
		t.Errorf("the secret is not among %v", refs)
	}
}
