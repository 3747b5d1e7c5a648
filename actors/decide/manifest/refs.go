package manifest

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// forbidAPIObjects refuses references to objects in the API: the apiserver
// refuses the mirror pod that has them, and a standalone node could never find
// them (Kubernetes documentation, "Create static Pods"; kubelet feature gate
// PreventStaticPodAPIReferences).
func forbidAPIObjects(pod *v1.Pod) field.ErrorList {
	var errs field.ErrorList
	forbid := func(path *field.Path, what string) {
		errs = append(errs, field.Forbidden(path, "a static pod cannot use "+what+
			": it runs without the API. Create the pod in the API, or give it a hostPath volume or plain values"))
	}
	spec := field.NewPath("spec")
	if pod.Spec.ServiceAccountName != "" {
		forbid(spec.Child("serviceAccountName"), "a ServiceAccount")
	}
	if pod.Spec.DeprecatedServiceAccount != "" {
		forbid(spec.Child("serviceAccount"), "a ServiceAccount")
	}
	if len(pod.Spec.ImagePullSecrets) > 0 {
		forbid(spec.Child("imagePullSecrets"), "a Secret")
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		forbid(spec.Child("resourceClaims"), "a ResourceClaim")
	}
	eachContainer(pod, func(c *v1.Container, path *field.Path, _ podspec.Kind) {
		forbidInEnv(c, path, forbid)
	})
	for i := range pod.Spec.Volumes {
		forbidInVolume(&pod.Spec.Volumes[i], spec.Child("volumes").Index(i), forbid)
	}
	return errs
}

func forbidInEnv(c *v1.Container, path *field.Path, forbid func(*field.Path, string)) {
	for i, from := range c.EnvFrom {
		at := path.Child("envFrom").Index(i)
		if from.ConfigMapRef != nil {
			forbid(at.Child("configMapRef"), "a ConfigMap")
		}
		if from.SecretRef != nil {
			forbid(at.Child("secretRef"), "a Secret")
		}
	}
	for i := range c.Env {
		from := c.Env[i].ValueFrom
		if from == nil {
			continue
		}
		at := path.Child("env").Index(i).Child("valueFrom")
		if from.ConfigMapKeyRef != nil {
			forbid(at.Child("configMapKeyRef"), "a ConfigMap")
		}
		if from.SecretKeyRef != nil {
			forbid(at.Child("secretKeyRef"), "a Secret")
		}
	}
}

func forbidInVolume(v *v1.Volume, at *field.Path, forbid func(*field.Path, string)) {
	if v.Projected != nil {
		for i := range v.Projected.Sources {
			forbidInProjection(&v.Projected.Sources[i], at.Child("projected", "sources").Index(i), forbid)
		}
	}
	for _, source := range []struct {
		used       bool
		name, what string
	}{
		{v.ConfigMap != nil, "configMap", "a ConfigMap"},
		{v.Secret != nil, "secret", "a Secret"},
		{v.PersistentVolumeClaim != nil, "persistentVolumeClaim", "a PersistentVolumeClaim"},
		{v.Ephemeral != nil, "ephemeral", "a PersistentVolumeClaim"},
		{v.CSI != nil, "csi", "a CSIDriver"},
		{v.AzureFile != nil, "azureFile", "a Secret"},
		{v.Glusterfs != nil, "glusterfs", "Endpoints"},
		{v.CephFS != nil && v.CephFS.SecretRef != nil, "cephfs.secretRef", "a Secret"},
		{v.Cinder != nil && v.Cinder.SecretRef != nil, "cinder.secretRef", "a Secret"},
		{v.FlexVolume != nil && v.FlexVolume.SecretRef != nil, "flexVolume.secretRef", "a Secret"},
		{v.RBD != nil && v.RBD.SecretRef != nil, "rbd.secretRef", "a Secret"},
		{v.ScaleIO != nil && v.ScaleIO.SecretRef != nil, "scaleIO.secretRef", "a Secret"},
		{v.ISCSI != nil && v.ISCSI.SecretRef != nil, "iscsi.secretRef", "a Secret"},
		{v.StorageOS != nil && v.StorageOS.SecretRef != nil, "storageos.secretRef", "a Secret"},
	} {
		if source.used {
			forbid(at.Child(source.name), source.what)
		}
	}
}

func forbidInProjection(s *v1.VolumeProjection, at *field.Path, forbid func(*field.Path, string)) {
	for _, source := range []struct {
		used       bool
		name, what string
	}{
		{s.ConfigMap != nil, "configMap", "a ConfigMap"},
		{s.Secret != nil, "secret", "a Secret"},
		{s.ServiceAccountToken != nil, "serviceAccountToken", "a ServiceAccount"},
		{s.ClusterTrustBundle != nil, "clusterTrustBundle", "a ClusterTrustBundle"},
		{s.PodCertificate != nil, "podCertificate", "a PodCertificateRequest"},
	} {
		if source.used {
			forbid(at.Child(source.name), source.what)
		}
	}
}
