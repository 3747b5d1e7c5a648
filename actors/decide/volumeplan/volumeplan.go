// Package volumeplan decides how each volume of a pod is brought up: what it
// holds, what its claim is bound to, how large it may be.
package volumeplan

import (
	"errors"
	"fmt"
	"hash/fnv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/emptydir"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/volumefiles"
)

// Mount is how one volume is brought up, or why that can't be.
type Mount struct {
	// Name is the volume's.
	Name string
	// Content, Persistent, ReadOnly and Size are those of port.MountVolume.
	Content    *volumefiles.Content
	Persistent *v1.PersistentVolume
	ReadOnly   bool
	Size       int64
	// Version tells contents apart; 0 for a volume that has none.
	Version uint64
	// Err is why it can't be brought up, in words that users know. If
	// podobjects.StateOf it is Unknown, it only has to be waited for.
	Err error
}

// Plan gives a Mount for each volume, in the order of the pod.
func Plan(pod *v1.Pod, objects podobjects.Set, allocatable v1.ResourceList) []Mount {
	from := volumefiles.Source{Pod: pod, Objects: objects, Allocatable: allocatable}
	out := make([]Mount, len(pod.Spec.Volumes))
	for i := range pod.Spec.Volumes {
		v, m := &pod.Spec.Volumes[i], &out[i]
		m.Name = v.Name
		switch {
		case volumefiles.Holds(v):
			if m.Content, m.Err = from.Of(v); m.Err == nil {
				m.Version = version(m.Content)
			}
		case v.EmptyDir != nil && v.EmptyDir.Medium == v1.StorageMediumMemory:
			m.Size = emptydir.Size(pod, v.EmptyDir, allocatable)
		case podobjects.ClaimName(pod, v) != "":
			m.Persistent, m.ReadOnly, m.Err = claimed(pod, v, objects)
		}
	}
	return out
}

// claimed gives the PersistentVolume of a volume that has a claim.
func claimed(pod *v1.Pod, v *v1.Volume, objects podobjects.Set) (*v1.PersistentVolume, bool, error) {
	name := podobjects.ClaimName(pod, v)
	claim, err := objects.Claim(pod.Namespace, name)
	if err != nil {
		return nil, false, err
	}
	if v.Ephemeral != nil && !owns(pod, claim) {
		return nil, false, fmt.Errorf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", claim.Namespace,
			claim.Name, pod.Namespace, pod.Name)
	}
	if claim.Status.Phase != v1.ClaimBound || claim.Spec.VolumeName == "" {
		return nil, false, fmt.Errorf("PVC %s/%s is not bound: its phase is %q", claim.Namespace,
			claim.Name, claim.Status.Phase)
	}
	pv, err := objects.Volume(claim.Spec.VolumeName)
	if err != nil {
		return nil, false, err
	}
	if r := pv.Spec.ClaimRef; r == nil || r.UID != claim.UID {
		return nil, false, fmt.Errorf("PV %s is not bound to PVC %s/%s", pv.Name, claim.Namespace, claim.Name)
	}
	if pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == v1.PersistentVolumeBlock {
		return nil, false,
			errors.New("PV " + pv.Name +
				" is a block device (volumeMode Block), which this node does not support: use volumeMode Filesystem")
	}
	return pv, v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly, nil
}

func owns(pod *v1.Pod, claim *v1.PersistentVolumeClaim) bool {
	o := metav1.GetControllerOf(claim)
	return o != nil && o.UID == pod.UID
}

func version(c *volumefiles.Content) uint64 {
	h := fnv.New64a()
	for i := range c.Files {
		f := &c.Files[i]
		fmt.Fprintf(h, "%d %s %o %d ", len(f.Path), f.Path, f.Mode, len(f.Data)) //nolint:errcheck // a hash takes all
		h.Write(f.Data)                                                          //nolint:errcheck // a hash takes all
	}
	return max(h.Sum64(), 1)
}
