package volumeplan

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/podobjects"
)

// in is a nodeAffinity for the zone.
func in(zone string) *v1.VolumeNodeAffinity {
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{zone}}},
	}}}}
}

func TestBarred(t *testing.T) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"zone": "a"}}}
	for _, c := range []struct {
		name     string
		affinity *v1.VolumeNodeAffinity
		node     *v1.Node
		want     error
	}{
		{"anywhere", nil, nil, nil},
		{"nothing required", &v1.VolumeNodeAffinity{}, nil, nil},
		{"here", in("a"), node, nil},
		{"elsewhere", in("b"), node, errElsewhere},
		{"not known where", in("a"), nil, ErrNodeUnknown},
		{"no terms", &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{}}, node, errElsewhere},
		{"a node without labels", in("a"), &v1.Node{}, errElsewhere},
	} {
		pv := &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{NodeAffinity: c.affinity}}
		if got := Barred(pv, c.node); !errors.Is(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if err := Barred(nil, nil); err != nil {
		t.Errorf("no PersistentVolume: %v", err)
	}
}

// TestFailed: scripts look for these texts, which are those of the kubelet.
func TestFailed(t *testing.T) {
	plan := func(change func(*world)) Mount {
		w := newWorld()
		change(w)
		return Plan(w.pod, w.objects(), nil, nil)[0]
	}
	block := v1.PersistentVolumeBlock
	ofCSI := func(w *world) {
		w.pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}
		w.pv.Spec.VolumeMode = &block
		c := &w.pod.Spec.Containers[0]
		c.VolumeMounts, c.VolumeDevices = nil, []v1.VolumeDevice{{Name: "data"}}
	}
	for _, c := range []struct {
		name         string
		change       func(*world)
		err          error
		reason, want string
	}{
		{"of a claim", func(*world) {}, errors.New("no"), "FailedMount", `MountVolume.SetUp failed for volume "pv" : no`},
		{"in the pod", func(w *world) {
			w.pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}
		}, errors.New("no"), "FailedMount", `MountVolume.SetUp failed for volume "data" : no`},
		{"a device", ofCSI, errors.New("no"), "FailedMapVolume", `MapVolume.MapPodDevice failed for volume "pv" : no`},
		{"elsewhere", func(*world) {}, errElsewhere, "FailedMount", `MountVolume.NodeAffinity check failed for volume "pv" : no matching NodeSelectorTerms`},
		{"a device elsewhere", ofCSI, errElsewhere, "FailedMount", `MapVolume.NodeAffinity check failed for volume "pv" : no matching NodeSelectorTerms`},
		{"another pod has it", func(*world) {}, ErrTaken, "FailedMount", `MountVolume.SetUp failed for volume "pv" : ` + ErrTaken.Error()},
		{"a device that another pod has", ofCSI, ErrTaken, "FailedMapVolume", `MapVolume.SetUpDevice failed for volume "pv" : ` + ErrTaken.Error()},
		{"without a claim", func(w *world) { w.absent = true }, nil, "FailedMount", "Unable to attach or mount volumes: " +
			"unmounted volumes=[data other], unattached volumes=[], failed to process volumes=[data]: " +
			`error processing PVC shop/c: persistentvolumeclaim "c" not found`},
	} {
		m := plan(c.change)
		if c.err == nil {
			c.err = m.Err
		}
		reason := m.Reason(c.err)
		if got := m.Failed(c.err, c.err.Error(), []string{"data", "other"}); got != c.want || reason != c.reason {
			t.Errorf("%s: %s: %s\nwant %s: %s", c.name, reason, got, c.reason, c.want)
		}
	}
}

// TestAlone: which volumes only one pod at a time may have.
func TestAlone(t *testing.T) {
	once, many := v1.ReadWriteOncePod, v1.ReadWriteOnce
	local := v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{}}
	for name, c := range map[string]struct {
		source v1.PersistentVolumeSource
		modes  []v1.PersistentVolumeAccessMode
		alone  bool
	}{
		"local":            {local, []v1.PersistentVolumeAccessMode{once}, true},
		"iSCSI":            {v1.PersistentVolumeSource{ISCSI: &v1.ISCSIPersistentVolumeSource{}}, []v1.PersistentVolumeAccessMode{once}, true},
		"Fibre Channel":    {v1.PersistentVolumeSource{FC: &v1.FCVolumeSource{}}, []v1.PersistentVolumeAccessMode{once}, true},
		"NFS":              {v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{}}, []v1.PersistentVolumeAccessMode{once}, false},
		"CSI":              {v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{}}, []v1.PersistentVolumeAccessMode{once}, false},
		"of a node":        {local, []v1.PersistentVolumeAccessMode{many}, false},
		"of several modes": {local, []v1.PersistentVolumeAccessMode{once, many}, false},
	} {
		pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
		pv.Spec.PersistentVolumeSource, pv.Spec.AccessModes = c.source, c.modes
		if got := (&Mount{Persistent: pv}).Alone(); got == "pv" != c.alone {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := (&Mount{}).Alone(); got != "" {
		t.Errorf("without a claim: %q", got)
	}
}

// TestUnused: nothing is planned for a volume that no container uses.
func TestUnused(t *testing.T) {
	w := newWorld()
	w.pod.Spec.Volumes = append(w.pod.Spec.Volumes, v1.Volume{Name: "unused", VolumeSource: v1.VolumeSource{
		ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "none"}},
	}})
	if all := Plan(w.pod, w.objects(), nil, nil); len(all) != 1 || all[0].Name != "data" {
		t.Errorf("got %+v", all)
	}
	if refs := podobjects.VolumeRefs(w.pod, w.objects()); len(refs) != 2 {
		t.Errorf("it asks for %v", refs)
	}
}
