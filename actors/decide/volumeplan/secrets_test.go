package volumeplan

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/tests/podtest"
)

// TestSecretsOfCSI: a volume has the secrets that its PersistentVolume names, and its pod waits for those that it needs.
func TestSecretsOfCSI(t *testing.T) {
	ref := func(name string) *v1.SecretReference { return &v1.SecretReference{Namespace: "storage", Name: name} }
	claim := func(asks string) *v1.PersistentVolumeClaim {
		c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "c1"}}
		c.Spec.VolumeName, c.Status.Phase = "pv1", v1.ClaimBound
		c.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse(asks)}
		c.Status.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
		return c
	}
	for _, c := range []struct {
		what, asks string
		missing    string // the secret that is not there
		unknown    string // the secret that is not known yet
		want       string // the error
	}{
		{what: "all are there", asks: "1Gi"},
		{what: "no stage", asks: "1Gi", missing: "stage"},
		{what: "stage is not known", asks: "1Gi", unknown: "stage", want: "nodeStageSecretRef storage/stage"},
		{what: "no publish", asks: "1Gi", missing: "publish", want: "nodePublishSecretRef storage/publish"},
		{what: "no expand, and nothing to expand", asks: "1Gi", missing: "expand"},
		{what: "no expand, and something to expand", asks: "2Gi", missing: "expand", want: "nodeExpandSecretRef storage/expand"},
		{what: "expand is not known", asks: "1Gi", unknown: "expand", want: "nodeExpandSecretRef storage/expand"},
	} {
		pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv1"}}
		pv.Spec.ClaimRef = &v1.ObjectReference{UID: "c1"}
		pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse(c.asks)}
		pv.Spec.CSI = &v1.CSIPersistentVolumeSource{
			Driver: "test.csi", NodeStageSecretRef: ref("stage"), NodePublishSecretRef: ref("publish"), NodeExpandSecretRef: ref("expand"),
		}
		known := []podobjects.Entry{
			{Ref: podobjects.Ref{Kind: podobjects.Claim, Namespace: "shop", Name: "data"}, State: podobjects.Found, Object: claim(c.asks)},
			{Ref: podobjects.Ref{Kind: podobjects.Volume, Name: "pv1"}, State: podobjects.Found, Object: pv},
		}
		known[0].Object.(*v1.PersistentVolumeClaim).Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{
			v1.ResourceStorage: v1.PersistentVolumeClaimNodeResizePending, // it is the node's turn, if it has to grow
		}
		for _, name := range []string{"stage", "publish", "expand"} {
			e := podobjects.Entry{Ref: podobjects.Ref{Kind: podobjects.Secret, Namespace: "storage", Name: name}, State: podobjects.Missing}
			if name == c.unknown {
				continue
			}
			if name != c.missing {
				e.State, e.Object = podobjects.Found, &v1.Secret{Data: map[string][]byte{"key": []byte(name)}}
			}
			known = append(known, e)
		}
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: v1.PodSpec{Volumes: []v1.Volume{{
			Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}},
		}}}}
		podtest.UseVolumes(&pod.Spec)
		plan := Plan(pod, podobjects.NewSet(known), nil, nil)
		m := plan[0]
		if m.Err == nil != (c.want == "") || m.Err != nil && !strings.HasPrefix(m.Err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.what, m.Err, c.want)
		}
		if c.want != "" {
			continue
		}
		if why := m.CSI.NoStageSecret; strings.HasPrefix(why, "nodeStageSecretRef storage/stage: ") != (c.missing == "stage") {
			t.Errorf("%s: there is no secret for a stage: %q", c.what, why)
		}
		for name, got := range map[string]map[string]string{"stage": m.CSI.StageSecrets, "publish": m.CSI.PublishSecrets, "expand": m.CSI.ExpandSecrets} {
			if want := name; name != c.missing && got["key"] != want {
				t.Errorf("%s: the secret for %s is %v", c.what, name, got)
			}
		}
	}
}
