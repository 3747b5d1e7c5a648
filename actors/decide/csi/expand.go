package csi

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Expand are the parameters of NodeExpandVolume.
type Expand struct {
	Key
	// Pod is one for which it is published to be written.
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

// writer is the first publication that a pod wants and can write to, nil for none: a file system that is read-only
// can't be expanded.
func (v *Volume) writer(sorted []Target) *Publication {
	for _, t := range sorted {
		if p := v.Targets[t]; p.State == Done && p.Want == Wanted && !p.Spec.ReadOnly {
			return p
		}
	}
	return nil
}

// Ready reports whether the pod may use the volume: it is published, and was expanded if that was to be and could be.
func (v *Volume) Ready(t Target) bool {
	p := v.Targets[t]
	return p != nil && p.State == Done && p.ready
}

// Expanding is how a volume is expanded, and the spec of the pod that asks for it.
func (v *Volume) Expanding() (Expand, *Spec) {
	s := v.writer(v.sorted()).Spec
	return Expand{
		Key: s.Key, Pod: s.Pod, Name: s.Name, Block: s.Block, Size: v.Grow, FSType: s.FSType,
		MountOptions: s.MountOptions, Access: s.Access, Secrets: s.ExpandSecrets,
	}, s
}

// Has is the size in bytes that it has on this node; 0: unknown.
func (v *Volume) Has() int64 { return v.has }

// Asked notes which size the driver was asked for by the expansion under way: what the claim wanted when it was looked
// at again. 0: it was not asked, because the claim wants nothing of the node any more.
func (v *Volume) Asked(size int64) {
	if v.Grow == v.growing {
		v.Grow = size
	}
	v.growing = size
}

// Expand notes that the volume has another size, in bytes, than its claim says. 0: it has not.
func (v *Volume) Expand(size int64) {
	if size > v.grown {
		v.Grow = size
	}
}

// Outgrown is the size that a node has to expand a volume to, in bytes; 0 if it has not. A controller has expanded the
// volume itself by then, and says in the claim that it is the node's turn (KEP-1790):
//
//	the controller expands ──► NodeResizePending ──► NodeResizeInProgress ──► nothing: done
//	  ▲                                                  │ the node can't, or the user has given the claim another size
//	  └───────────────── NodeResizeInfeasible ◄──────────┘
//
// The size is then the one that the controller has allocated. A controller from before KEP-1790 writes none of this:
// the capacity of the PersistentVolume is the size then. So it is for a local volume, which has no controller: who
// has made its device bigger says so by that capacity alone.
func Outgrown(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) int64 {
	has, is := claim.Status.Capacity[v1.ResourceStorage]
	want := pv.Spec.Capacity[v1.ResourceStorage]
	if !is || want.Cmp(has) <= 0 {
		return 0
	}
	switch claim.Status.AllocatedResourceStatuses[v1.ResourceStorage] {
	case v1.PersistentVolumeClaimNodeResizePending, v1.PersistentVolumeClaimNodeResizeInProgress:
		if size, is := claim.Status.AllocatedResources[v1.ResourceStorage]; is {
			want = size
		}
		return want.Value()
	default:
		if Quiet(claim) {
			return want.Value()
		}
		return 0 // it is the controller's turn
	}
}

// Quiet reports whether nobody says in a claim how an expansion of it goes. Then a node writes how big the volume is
// once it is expanded, and nothing before, nor of what fails.
func Quiet(claim *v1.PersistentVolumeClaim) bool {
	return claim.Status.AllocatedResourceStatuses[v1.ResourceStorage] == "" && claim.Status.AllocatedResources == nil
}

// notOnNodes is the annotation of a claim whose volume needs no work on nodes when it is expanded.
const notOnNodes = "volume.kubernetes.io/node-expansion-not-required"

// Elsewhere is the size that a volume which is mounted on several nodes (ReadWriteMany) has to be expanded to on this
// node, too, although its claim says that it has that size: another node has expanded it there. 0: it has not. has is
// its size on this node, 0 if that is unknown.
func Elsewhere(claim *v1.PersistentVolumeClaim, has int64) int64 {
	size := claim.Status.Capacity.Storage().Value()
	_, not := claim.Annotations[notOnNodes]
	many := slices.Contains(claim.Spec.AccessModes, v1.ReadWriteMany)
	if has == 0 || size <= has || not || !many || !Settled(claim, size) {
		return 0
	}
	return size
}

// Settled reports whether a claim says that its volume has a size, and that nothing is left to do.
func Settled(claim *v1.PersistentVolumeClaim, size int64) bool {
	status := claim.Status.AllocatedResourceStatuses[v1.ResourceStorage]
	return claim.Status.Capacity.Storage().Value() >= size && status == ""
}

// Resizes reports whether a claim says that its volume is, or has to be, expanded.
func Resizes(claim *v1.PersistentVolumeClaim) bool {
	has, want := claim.Status.Capacity[v1.ResourceStorage], claim.Spec.Resources.Requests[v1.ResourceStorage]
	return want.Cmp(has) > 0 || len(claim.Status.AllocatedResourceStatuses) > 0 ||
		slices.ContainsFunc(claim.Status.Conditions, resizing)
}

func resizing(c v1.PersistentVolumeClaimCondition) bool {
	switch c.Type {
	case v1.PersistentVolumeClaimFileSystemResizePending, v1.PersistentVolumeClaimResizing,
		v1.PersistentVolumeClaimControllerResizeError, v1.PersistentVolumeClaimNodeResizeError:
		return true
	default:
		return false
	}
}

// Failed is a claim whose expansion to a size the driver has finally refused: with the condition that says why. If it
// can't ever be done (infeasible), or the user has given the claim another size meanwhile, it is the controller's turn:
// it expands the volume to the size that the claim wants now. The condition stays as it is if it is there.
func Failed(
	claim *v1.PersistentVolumeClaim, size int64, infeasible bool, why string, now time.Time,
) *v1.PersistentVolumeClaim {
	out := *claim
	if want := claim.Spec.Resources.Requests[v1.ResourceStorage]; infeasible || want.Value() != size {
		out = *Marked(claim, v1.PersistentVolumeClaimNodeResizeInfeasible)
	}
	if !slices.ContainsFunc(claim.Status.Conditions, func(c v1.PersistentVolumeClaimCondition) bool {
		return c.Type == v1.PersistentVolumeClaimNodeResizeError && c.Status == v1.ConditionTrue
	}) {
		out.Status.Conditions = append(slices.DeleteFunc(slices.Clone(claim.Status.Conditions),
			func(c v1.PersistentVolumeClaimCondition) bool {
				return c.Type == v1.PersistentVolumeClaimNodeResizeError
			}),
			v1.PersistentVolumeClaimCondition{
				Type: v1.PersistentVolumeClaimNodeResizeError, Status: v1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(now), Message: "failed to expand pvc with " + why,
			})
	}
	return &out
}

// Infeasible reports whether a claim says that its expansion on a node can't be done.
func Infeasible(claim *v1.PersistentVolumeClaim) bool {
	return claim.Status.AllocatedResourceStatuses[v1.ResourceStorage] == v1.PersistentVolumeClaimNodeResizeInfeasible
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

// asWritten is a size as the claim has it: 10G stays 10G.
func asWritten(claim *v1.PersistentVolumeClaim, size int64) resource.Quantity {
	for _, l := range [...]v1.ResourceList{claim.Status.AllocatedResources, claim.Spec.Resources.Requests} {
		if q, ok := l[v1.ResourceStorage]; ok && q.Value() == size {
			return q
		}
	}
	return *resource.NewQuantity(size, resource.BinarySI)
}

// Expanded is a claim whose volume has been expanded.
func Expanded(claim *v1.PersistentVolumeClaim, size int64) *v1.PersistentVolumeClaim {
	out := *claim
	out.Status.Capacity = maps.Clone(claim.Status.Capacity)
	if out.Status.Capacity == nil {
		out.Status.Capacity = v1.ResourceList{}
	}
	out.Status.Capacity[v1.ResourceStorage] = asWritten(claim, size)
	out.Status.AllocatedResourceStatuses = maps.Clone(claim.Status.AllocatedResourceStatuses)
	delete(out.Status.AllocatedResourceStatuses, v1.ResourceStorage)
	out.Status.Conditions = slices.DeleteFunc(slices.Clone(claim.Status.Conditions), resizing)
	return &out
}
