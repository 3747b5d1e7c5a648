package blockdevice

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestReadOnly: that of a volume in a pod counts, that of a PersistentVolume does not: the claim in the pod says it.
func TestReadOnly(t *testing.T) {
	fc, iscsi := &v1.FCVolumeSource{ReadOnly: true}, &v1.ISCSIVolumeSource{ReadOnly: true}
	inPod := v1.VolumeSource{FC: fc, ISCSI: iscsi}
	pv := &v1.PersistentVolume{}
	pv.Spec.FC, pv.Spec.ISCSI = fc, &v1.ISCSIPersistentVolumeSource{ReadOnly: true}
	v := &v1.Volume{VolumeSource: inPod}
	if !FCOf(v, nil).ReadOnly || !ISCSIOf("default", v, nil).ReadOnly {
		t.Error("a volume in a pod is not read-only")
	}
	if FCOf(v, pv).ReadOnly || ISCSIOf("default", v, pv).ReadOnly || !fc.ReadOnly {
		t.Error("a PersistentVolume is read-only, whatever the pod says")
	}
}
