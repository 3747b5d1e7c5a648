package manifest

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
)

// fileMode is the default mode of files that a volume projects, 0644 in
// decimal as the API has it (fields defaultMode).
const fileMode int32 = 0o644

// tokenLife is how long a projected service account token is asked for, in
// seconds (field expirationSeconds).
const tokenLife int64 = 3600

// defaultVolume fills in what the API documents for the sources of volumes. Some
// a static pod can't have anyway (see forbidAPIObjects).
func defaultVolume(v *v1.Volume) {
	if v.VolumeSource == (v1.VolumeSource{}) {
		v.EmptyDir = &v1.EmptyDirVolumeSource{}
	}
	if v.HostPath != nil {
		setIfNil(&v.HostPath.Type, v1.HostPathUnset)
	}
	if v.DownwardAPI != nil {
		setIfNil(&v.DownwardAPI.DefaultMode, fileMode)
		defaultDownwardItems(v.DownwardAPI.Items)
	}
	if v.Projected != nil {
		setIfNil(&v.Projected.DefaultMode, fileMode)
		for i := range v.Projected.Sources {
			if api := v.Projected.Sources[i].DownwardAPI; api != nil {
				defaultDownwardItems(api.Items)
			}
			if token := v.Projected.Sources[i].ServiceAccountToken; token != nil {
				setIfNil(&token.ExpirationSeconds, tokenLife)
			}
		}
	}
	if v.Image != nil {
		setIfEmpty(&v.Image.PullPolicy, imagepull.DefaultPolicy(v.Image.Reference))
	}
	if v.ISCSI != nil {
		setIfEmpty(&v.ISCSI.ISCSIInterface, "default")
	}
	if v.RBD != nil {
		setIfEmpty(&v.RBD.RBDPool, "rbd")
		setIfEmpty(&v.RBD.RadosUser, "admin")
		setIfEmpty(&v.RBD.Keyring, "/etc/ceph/keyring")
	}
	if v.ConfigMap != nil {
		setIfNil(&v.ConfigMap.DefaultMode, fileMode)
	}
	if v.Secret != nil {
		setIfNil(&v.Secret.DefaultMode, fileMode)
	}
}

func defaultDownwardItems(items []v1.DownwardAPIVolumeFile) {
	for i := range items {
		if items[i].FieldRef != nil {
			setIfEmpty(&items[i].FieldRef.APIVersion, "v1")
		}
	}
}
