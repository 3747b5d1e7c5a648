package podspec

import v1 "k8s.io/api/core/v1"

// IsDevice reports whether a PersistentVolume is used as a device (volumeMode Block), and not as a file system. A
// volume without one never is.
func IsDevice(pv *v1.PersistentVolume) bool {
	return pv != nil && pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == v1.PersistentVolumeBlock
}
