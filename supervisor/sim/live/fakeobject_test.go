package live

import (
	"maps"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

func TestMadeUp(t *testing.T) {
	named := v1.LocalObjectReference{Name: "app"}
	p := aPod("n", "p", "1")
	p.Spec.Containers = []v1.Container{{Name: "c", Env: []v1.EnvVar{
		{Name: "A", ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: named, Key: "a"}}},
		{Name: "B", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: named, Key: "s"}}},
	}}}
	p.Spec.Volumes = []v1.Volume{
		{Name: "v", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: named, Items: []v1.KeyToPath{{Key: "b", Path: "x"}}}},
			{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "other"}, Items: []v1.KeyToPath{{Key: "o", Path: "y"}}}},
		}}}},
		{Name: "e", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}},
	}
	elsewhere := aPod("n", "q", "1")
	elsewhere.Namespace, elsewhere.Spec = "other", p.Spec
	get := func(kind port.APIKind, name string) port.APIObject {
		o, is := fakeObject(port.APIKey{Kind: kind, Namespace: "default", Name: name}, []*v1.Pod{p, elsewhere})
		if !is || o.GetName() != name {
			t.Fatalf("%v %s is %v", kind, name, o)
		}
		return o
	}
	if keys := slices.Sorted(maps.Keys(get(port.ConfigMapKind, "app").(*v1.ConfigMap).Data)); !slices.Equal(keys, []string{"a", "b"}) {
		t.Errorf("the configmap has %v, want a and b", keys)
	}
	if keys := slices.Sorted(maps.Keys(get(port.SecretKind, "app").(*v1.Secret).Data)); !slices.Equal(keys, []string{"s"}) {
		t.Errorf("the secret has %v, want s", keys)
	}
	claim := get(port.PersistentVolumeClaimKind, "p-e").(*v1.PersistentVolumeClaim)
	if claim.Status.Phase != v1.ClaimBound || len(claim.OwnerReferences) != 1 || claim.OwnerReferences[0].UID != p.UID {
		t.Errorf("the claim is %+v, want one that is bound and the pod's", claim)
	}
	if pv := get(port.PersistentVolumeKind, claim.Spec.VolumeName).(*v1.PersistentVolume); pv.Spec.ClaimRef.UID != claim.UID {
		t.Errorf("the volume is of claim %v, want %s", pv.Spec.ClaimRef, claim.UID)
	}
	if _, is := fakeObject(port.APIKey{Kind: port.NodeKind, Name: "n"}, nil); is {
		t.Error("a node is made up")
	}
	now, life := time.Now(), int64(600)
	if token := madeUpToken(authenticationv1.TokenRequestSpec{ExpirationSeconds: &life}, now); token.ExpirationTimestamp.Sub(now) != 10*time.Minute {
		t.Errorf("the token is good until %v", token.ExpirationTimestamp)
	}
}
