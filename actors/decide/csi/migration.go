package csi

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	translation "k8s.io/csi-translation-lib"
	"k8s.io/csi-translation-lib/plugins"
)

// migrated are the names of the drivers in Kubernetes that have become CSI drivers, sorted.
var migrated = []string{
	plugins.AWSEBSInTreePluginName, plugins.AzureDiskInTreePluginName, plugins.AzureFileInTreePluginName,
	plugins.CinderInTreePluginName, plugins.GCEPDInTreePluginName, plugins.PortworxVolumePluginName,
	plugins.VSphereInTreePluginName,
}

// silent calls a translation with a logger that drops all: what went wrong is in the error.
func silent[L, A, R any](f func(L, A) (R, error), of A) (R, error) {
	var none L
	return f(none, of)
}

// silentIn does it for a translation that asks for the namespace, too.
func silentIn[L, A, R any](f func(L, A, string) (R, error), of A, namespace string) (R, error) {
	var none L
	return f(none, of, namespace)
}

// Migrated is the PersistentVolume with a CSI source in the place of a source of a migrated kind, and with the
// topology of the CSI driver; pv itself if its kind is another one. pv is not changed.
func Migrated(pv *v1.PersistentVolume) (*v1.PersistentVolume, error) {
	t := translation.New()
	if !t.IsPVMigratable(pv) {
		return pv, nil
	}
	out, err := silent(t.TranslateInTreePVToCSI, pv)
	if err != nil {
		return nil, fmt.Errorf("PersistentVolume %s can't be translated to its CSI driver: %w", pv.Name, err)
	}
	return out, nil
}

// MigratedInline is the PersistentVolume that stands for a volume of a migrated kind in the spec of a pod; nil if its
// kind is another one. Its name is that of the driver and the disk.
func MigratedInline(v *v1.Volume, namespace string) (*v1.PersistentVolume, error) {
	t := translation.New()
	if !t.IsInlineMigratable(v) {
		return nil, nil //nolint:nilnil // another kind
	}
	plain, policy := withoutPolicy(v)
	out, err := silentIn(t.TranslateInTreeInlineVolumeToCSI, plain, namespace)
	if err != nil {
		return nil, fmt.Errorf("volume %s can't be translated to its CSI driver: %w", v.Name, err)
	}
	if policy != "" && out.Spec.CSI.Driver == plugins.VSphereDriverName {
		out.Spec.CSI.VolumeAttributes[storagePolicy] = policy
	}
	return out, nil
}

// storagePolicy is the attribute of a volume of vSphere with the name of its storage policy.
const storagePolicy = "storagepolicyname"

// withoutPolicy is a volume without its storage policy, and the policy. The library looks for the policy in the result,
// where it has not put it, and panics (csi-translation-lib v0.36 and v0.37).
func withoutPolicy(v *v1.Volume) (_ *v1.Volume, policy string) {
	if v.VsphereVolume == nil || v.VsphereVolume.StoragePolicyName == "" {
		return v, ""
	}
	out, disk := *v, *v.VsphereVolume
	disk.StoragePolicyName = ""
	out.VsphereVolume = &disk
	return &out, v.VsphereVolume.StoragePolicyName
}

// MigrationNoted is a CSINode with the annotation by which schedulers and controllers know that this node takes
// migrated volumes (storage.alpha.kubernetes.io/migrated-plugins), and whether that differs from have.
func MigrationNoted(have *storagev1.CSINode) (*storagev1.CSINode, bool) {
	was := strings.Split(have.Annotations[v1.MigratedPluginsAnnotationKey], ",")
	slices.Sort(was)
	if slices.Equal(was, migrated) {
		return have, false
	}
	out := *have
	out.Annotations = map[string]string{}
	for k, value := range have.Annotations { // order-free: a map again
		out.Annotations[k] = value
	}
	out.Annotations[v1.MigratedPluginsAnnotationKey] = strings.Join(migrated, ",")
	return &out, true
}
