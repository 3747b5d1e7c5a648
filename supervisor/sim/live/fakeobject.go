package live

import (
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
)

// The API objects that pods of simulated nodes name are made up. No process reads them, and a
// process should not be able to read the secrets of a whole cluster without need. A ConfigMap or
// Secret has the keys that the node's pods use, a claim is bound, a token is a constant.

// fakeObject reports whether objects of a kind are made up, and returns the one of a key for the pods
// of a node.
func fakeObject(k port.APIKey, pods []*v1.Pod) (port.APIObject, bool) {
	meta := metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Name, UID: madeUpUID(k)}
	switch k.Kind {
	case port.ConfigMapKind:
		o := &v1.ConfigMap{ObjectMeta: meta, Data: map[string]string{}}
		for key := range wanted(k, pods) { // order-free: into a map
			o.Data[key] = simulated
		}
		o.ResourceVersion = strconv.Itoa(1 + len(o.Data))
		return o, true
	case port.SecretKind:
		o := &v1.Secret{ObjectMeta: meta, Data: map[string][]byte{}}
		for key := range wanted(k, pods) { // order-free: into a map
			o.Data[key] = []byte(simulated)
		}
		o.ResourceVersion = strconv.Itoa(1 + len(o.Data))
		return o, true
	case port.PersistentVolumeClaimKind:
		o := &v1.PersistentVolumeClaim{ObjectMeta: meta, Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound}}
		o.ResourceVersion, o.Spec.VolumeName = "1", k.Namespace+"."+k.Name
		for _, p := range pods {
			for i := range p.Spec.Volumes {
				if p.Namespace == k.Namespace && p.Spec.Volumes[i].Ephemeral != nil &&
					podobjects.ClaimName(p, &p.Spec.Volumes[i]) == k.Name {
					o.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(p, v1.SchemeGroupVersion.WithKind("Pod"))}
				}
			}
		}
		return o, true
	case port.PersistentVolumeKind:
		o := &v1.PersistentVolume{ObjectMeta: meta, Status: v1.PersistentVolumeStatus{Phase: v1.VolumeBound}}
		o.ResourceVersion, o.Spec.HostPath = "1", &v1.HostPathVolumeSource{Path: "/" + simulated}
		claim := port.APIKey{Kind: port.PersistentVolumeClaimKind}
		claim.Namespace, claim.Name, _ = strings.Cut(k.Name, ".") // a namespace has no dot
		o.Spec.ClaimRef = &v1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: madeUpUID(claim)}
		return o, true
	default:
		return nil, false
	}
}

const simulated = "simulated"

func madeUpUID(k port.APIKey) types.UID { return types.UID(simulated + "/" + k.String()) }

// madeUpToken is good for as long as it was asked for.
func madeUpToken(spec authenticationv1.TokenRequestSpec, now time.Time) authenticationv1.TokenRequestStatus {
	life := int64(time.Hour / time.Second)
	if spec.ExpirationSeconds != nil {
		life = *spec.ExpirationSeconds
	}
	return authenticationv1.TokenRequestStatus{
		Token: simulated, ExpirationTimestamp: metav1.NewTime(now.Add(time.Duration(life) * time.Second)),
	}
}

// wanted are the keys of a ConfigMap or Secret that pods name.
func wanted(k port.APIKey, pods []*v1.Pod) map[string]bool {
	keys := map[string]bool{}
	for _, p := range pods {
		if p.Namespace != k.Namespace {
			continue
		}
		for c := range podspec.All(&p.Spec) {
			wantedByEnv(k, c.Env, keys)
		}
		for i := range p.Spec.Volumes {
			wantedByVolume(k, &p.Spec.Volumes[i], keys)
		}
	}
	return keys
}

func wantedByEnv(k port.APIKey, env []v1.EnvVar, keys map[string]bool) {
	for i := range env {
		from := env[i].ValueFrom
		switch {
		case from == nil:
		case k.Kind == port.ConfigMapKind && from.ConfigMapKeyRef != nil && from.ConfigMapKeyRef.Name == k.Name:
			keys[from.ConfigMapKeyRef.Key] = true
		case k.Kind == port.SecretKind && from.SecretKeyRef != nil && from.SecretKeyRef.Name == k.Name:
			keys[from.SecretKeyRef.Key] = true
		}
	}
}

func wantedByVolume(k port.APIKey, v *v1.Volume, keys map[string]bool) {
	items := func(name string, list []v1.KeyToPath) {
		if name == k.Name {
			for i := range list {
				keys[list[i].Key] = true
			}
		}
	}
	isMap := k.Kind == port.ConfigMapKind
	switch {
	case v.ConfigMap != nil && isMap:
		items(v.ConfigMap.Name, v.ConfigMap.Items)
	case v.Secret != nil && !isMap:
		items(v.Secret.SecretName, v.Secret.Items)
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			switch s := &v.Projected.Sources[i]; {
			case s.ConfigMap != nil && isMap:
				items(s.ConfigMap.Name, s.ConfigMap.Items)
			case s.Secret != nil && !isMap:
				items(s.Secret.Name, s.Secret.Items)
			}
		}
	}
}
