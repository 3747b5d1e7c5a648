package csi

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// Expand are the parameters of NodeExpandVolume.
type Expand struct {
	Key
	// Pod is one for which it is published, empty if it is only staged.
	Pod types.UID
	// Name is that of the PersistentVolume.
	Name         string
	Block        bool
	Size         int64
	FSType       string
	MountOptions []string
	Access       v1.PersistentVolumeAccessMode
	Secrets      map[string]string
}

// Expanding is how a volume is expanded, and the spec of the pod that asks for it.
func (v *Volume) Expanding() (Expand, *Spec) {
	s := v.first().Spec
	out := Expand{
		Key: s.Key, Name: s.Name, Block: s.Block, Size: v.Grow, FSType: s.FSType, MountOptions: s.MountOptions,
		Access: s.Access, Secrets: s.ExpandSecrets,
	}
	for _, t := range v.sorted() {
		if v.Targets[t].State == Done {
			out.Pod, out.Name = t.Pod, t.Name
			break
		}
	}
	return out, s
}

// Outgrown is the size that a node has to expand a volume to, in bytes; 0 if it has not. A controller has expanded the
// volume itself by then, and an expansion that can't be done is not tried again.
func Outgrown(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) int64 {
	has, is := claim.Status.Capacity[v1.ResourceStorage]
	want := pv.Spec.Capacity[v1.ResourceStorage]
	switch {
	case !is || want.Cmp(has) <= 0:
		return 0
	case claim.Status.AllocatedResourceStatuses[v1.ResourceStorage] == v1.PersistentVolumeClaimNodeResizeInfeasible:
		return 0
	}
	return want.Value()
}

// Resizes reports whether a claim says that its volume is, or has to be, expanded.
func Resizes(claim *v1.PersistentVolumeClaim) bool {
	has, want := claim.Status.Capacity[v1.ResourceStorage], claim.Spec.Resources.Requests[v1.ResourceStorage]
	return want.Cmp(has) > 0 || len(claim.Status.AllocatedResourceStatuses) > 0 ||
		slices.ContainsFunc(claim.Status.Conditions, resizing)
}

func resizing(c v1.PersistentVolumeClaimCondition) bool {
	return c.Type == v1.PersistentVolumeClaimFileSystemResizePending || c.Type == v1.PersistentVolumeClaimResizing
}

// Marked is a claim whose expansion on the node is in progress, or can't be done.
func Marked(claim *v1.PersistentVolumeClaim, as v1.ClaimResourceStatus) *v1.PersistentVolumeClaim {
	out := *claim
	out.Status.AllocatedResourceStatuses = maps.Clone(claim.Status.AllocatedResourceStatuses)
	if out.Status.AllocatedResourceStatuses == nil {
		out.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{}
	}
	out.Status.AllocatedResourceStatuses[v1.ResourceStorage] = as
	return &out
}

// Expanded is a claim whose volume has been expanded.
func Expanded(claim *v1.PersistentVolumeClaim, size int64) *v1.PersistentVolumeClaim {
	out := *claim
	out.Status.Capacity = maps.Clone(claim.Status.Capacity)
	if out.Status.Capacity == nil {
		out.Status.Capacity = v1.ResourceList{}
	}
	out.Status.Capacity[v1.ResourceStorage] = *resource.NewQuantity(size, resource.BinarySI)
	out.Status.AllocatedResourceStatuses = maps.Clone(claim.Status.AllocatedResourceStatuses)
	delete(out.Status.AllocatedResourceStatuses, v1.ResourceStorage)
	out.Status.Conditions = slices.DeleteFunc(slices.Clone(claim.Status.Conditions), resizing)
	return &out
}
