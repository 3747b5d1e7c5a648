package volumeplan

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/blockdevice"
	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/decide/isolation"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/volumefiles"
)

// Mount says how to mount one volume, or why that is not possible.
type Mount struct {
	// Name is the volume's, and Volume its spec.
	Name   string
	Volume *v1.Volume
	// Content, Persistent, ReadOnly and Size are those of port.MountVolume.
	Content    *volumefiles.Content
	Persistent *v1.PersistentVolume
	ReadOnly   bool
	Size       int64
	// CHAP are the secrets of an iSCSI target, Server what a disk is at, for people; empty for other volumes.
	CHAP   blockdevice.CHAP
	Server string
	// Label is the SELinux label to mount it with, if what mounts it can; empty for none.
	Label string
	// CSI is what a CSI driver has to do, for a volume of one; nil for others.
	CSI *csi.Spec
	// Claimed: it is the volume of a claim. Once it is there, what becomes of the claim does not matter.
	// Unprocessed: what that volume is can't be told, because of its claim.
	Claimed, Unprocessed bool
	// Outgrown: it is a local volume, or one of a CSI driver, that is bigger than its claim says (csi.Outgrown).
	Outgrown bool
	// Version identifies the content; 0 for a volume without content.
	Version uint64
	// Err is why it can't be mounted, in words that users know. If podobjects.StateOf is Unknown, it
	// only has to wait.
	Err error
}

// Plan returns a Mount for each volume that the pod uses, in the order of the pod. labels is nil on a host without
// SELinux.
func Plan(
	pod *v1.Pod, objects podobjects.Set, allocatable v1.ResourceList, labels *isolation.SELinuxHost,
) []Mount {
	from := volumefiles.Source{Pod: pod, Objects: objects, Allocatable: allocatable}
	in := input{pod: pod, objects: objects}
	out := make([]Mount, 0, len(pod.Spec.Volumes))
	for v := range podspec.Volumes(&pod.Spec) {
		out = append(out, Mount{Name: v.Name, Volume: v})
		m := &out[len(out)-1]
		switch {
		case volumefiles.Holds(v):
			if m.Content, m.Err = from.Of(v); m.Err == nil {
				m.Version = in.version(m.Content)
			}
			if m.Err == nil && m.Content.Memory {
				m.Size = in.inMemory(&v1.EmptyDirVolumeSource{}, allocatable)
			}
		case v.EmptyDir != nil && v.EmptyDir.Medium == v1.StorageMediumMemory:
			m.Size = in.inMemory(v.EmptyDir, allocatable)
		case podobjects.ClaimName(pod, v) != "":
			m.Claimed = true
			if m.Persistent, m.ReadOnly, m.Err = in.claimed(v); m.Err == nil {
				m.Label, m.Err = labels.Of(pod, v.Name, m.Persistent)
			}
			m.Unprocessed = m.Err != nil
			if m.Err == nil && m.Persistent.Spec.CSI != nil {
				m.CSI = csi.Of(pod, v, m.Persistent, m.ReadOnly)
				m.CSI.Label = m.Label
				if claim, err := objects.Claim(pod.Namespace, podobjects.ClaimName(pod, v)); err == nil {
					m.CSI.Size, m.CSI.Has = csi.Outgrown(claim, m.Persistent), claim.Status.Capacity.Storage().Value()
					m.Outgrown = m.CSI.Size > 0
				}
				m.Err = in.secrets(m.CSI, m.Persistent.Spec.CSI)
			}
			if m.Err == nil {
				m.disk(pod, v, objects)
				m.grows(pod, v, objects)
			}
		case v.CSI != nil:
			m.CSI = csi.Of(pod, v, nil, false)
			if r := v.CSI.NodePublishSecretRef; r != nil {
				m.CSI.PublishSecrets, m.Err = in.secret("nodePublishSecretRef", pod.Namespace, r.Name)
			}
		default:
			if m.CSI, m.Err = in.inline(v); m.CSI == nil && m.Err == nil {
				m.disk(pod, v, objects)
			}
		}
	}
	return out
}

// inline is a volume in the pod whose kind is migrated to a CSI driver; nil for other kinds.
func (in *input) inline(v *v1.Volume) (*csi.Spec, error) {
	pod := in.pod
	pv, err := csi.MigratedInline(v, pod.Namespace)
	if pv == nil || err != nil {
		return nil, err
	}
	if err := in.mode(v.Name, pv); err != nil {
		return nil, err
	}
	s := csi.Of(pod, v, pv, pv.Spec.CSI.ReadOnly)
	return s, in.secrets(s, pv.Spec.CSI)
}

// disk adds what a disk of iSCSI or Fibre Channel needs; nothing for other volumes.
func (m *Mount) disk(pod *v1.Pod, v *v1.Volume, objects podobjects.Set) {
	if s := blockdevice.FCOf(v, m.Persistent); s != nil {
		var d *blockdevice.FC
		if d, m.Err = blockdevice.NewFC(s); m.Err == nil {
			m.Server = d.String()
		}
		return
	}
	s := blockdevice.ISCSIOf(pod.Namespace, v, m.Persistent)
	if s == nil {
		return
	}
	name := v.Name
	if m.Persistent != nil {
		name = m.Persistent.Name
	}
	var d *blockdevice.ISCSI
	if d, m.Err = blockdevice.NewISCSI(name, s); m.Err != nil {
		return
	}
	m.Server = d.String()
	var data map[string][]byte
	if s.NeedsSecret() {
		o, err := objects.Secret(s.SecretNamespace, s.SecretRef.Name)
		if err != nil {
			m.Err = fmt.Errorf("secretRef %s/%s: %w", s.SecretNamespace, s.SecretRef.Name, err)
			return
		}
		data = o.Data
	}
	m.CHAP, m.Err = blockdevice.NewCHAP(s, data)
}

// grows says whether a local volume has to grow.
func (m *Mount) grows(pod *v1.Pod, v *v1.Volume, objects podobjects.Set) {
	if m.Persistent.Spec.Local == nil {
		return
	}
	claim, err := objects.Claim(pod.Namespace, podobjects.ClaimName(pod, v))
	m.Outgrown = err == nil && csi.Outgrown(claim, m.Persistent) > 0
}

// claimed returns the PersistentVolume of a volume with a claim, as its CSI driver sees it if its kind is migrated.
func (in *input) claimed(v *v1.Volume) (*v1.PersistentVolume, bool, error) {
	pod, objects := in.pod, in.objects
	claim, err := objects.Claim(pod.Namespace, podobjects.ClaimName(pod, v))
	if err == nil {
		err = usable(claim)
	}
	if err != nil {
		return nil, false, fmt.Errorf("error processing PVC %s/%s: %w", pod.Namespace, podobjects.ClaimName(pod, v), err)
	}
	if v.Ephemeral != nil && !owns(pod, claim) {
		return nil, false, fmt.Errorf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", claim.Namespace,
			claim.Name, pod.Namespace, pod.Name)
	}
	pv, err := objects.Volume(claim.Spec.VolumeName)
	if err == nil {
		err = boundTo(pv, claim)
	}
	if err != nil {
		return nil, false, fmt.Errorf("error processing PVC %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	if pv, err = csi.Migrated(pv); err != nil {
		return nil, false, err
	}
	if err := in.mode(v.Name, pv); err != nil {
		return nil, false, err
	}
	return pv, v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly, nil
}

// usable is why a pod can't begin to use a claim: it is not bound, or is being deleted and its use does not hold that
// up. A claim in use has the finalizer, so pods that run are not concerned.
func usable(claim *v1.PersistentVolumeClaim) error {
	switch {
	case claim.DeletionTimestamp != nil && !slices.Contains(claim.Finalizers, pvcProtection):
		return errors.New("PVC is being deleted")
	case claim.Status.Phase != v1.ClaimBound:
		return fmt.Errorf("PVC is not bound: its phase is %q", claim.Status.Phase)
	case claim.Spec.VolumeName == "":
		return errors.New("PVC has empty pvc.Spec.VolumeName")
	}
	return nil
}

// pvcProtection is the finalizer of claims that pods use (storage object in use protection).
const pvcProtection = "kubernetes.io/pvc-protection"

// boundTo is why a volume is not that of a claim.
func boundTo(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) error {
	switch r := pv.Spec.ClaimRef; {
	case r == nil:
		return fmt.Errorf("found PV object %s but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim",
			pv.Name)
	case r.UID != claim.UID:
		return fmt.Errorf("found PV object %s but its pv.Spec.ClaimRef.UID %s does not point to claim.UID %s", pv.Name,
			r.UID, claim.UID)
	}
	return nil
}

func owns(pod *v1.Pod, claim *v1.PersistentVolumeClaim) bool {
	o := metav1.GetControllerOf(claim)
	return o != nil && o.UID == pod.UID
}
