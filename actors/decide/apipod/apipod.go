package apipod

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
)

// Taken is a pod of the apiserver as its node takes it. A user may write that it comes from a manifest
// of the node: such a pod would be treated as static, so the annotation is corrected, as by the kubelet.
func Taken(p *v1.Pod) *v1.Pod {
	if !podspec.Static(p) {
		return p
	}
	taken := *p
	taken.Annotations = maps.Clone(p.Annotations)
	taken.Annotations[podspec.AnnotationSource] = string(podspec.API)
	return &taken
}

// Stop is how to take down a pod that is being deleted; nil if it isn't. The grace period counts
// from since, when this node first knew of the deletion, because deletionTimestamp is from the
// apiserver's clock. A deletion by force begins now.
func Stop(p *v1.Pod, since, now time.Time) *podlife.Stop {
	if p.DeletionTimestamp == nil {
		return nil
	}
	if Forced(p) {
		since = now
	}
	return &podlife.Stop{At: since, Grace: podspec.DeletionGrace(p), Why: "the pod was deleted"}
}

// Forced says whether a pod is deleted by force: no grace period is left.
func Forced(p *v1.Pod) bool { return p.DeletionTimestamp != nil && podspec.DeletionGrace(p) <= 0 }

// Same says whether two versions of a pod ask the same of its node. They may differ in what the
// node wrote and in the apiserver's bookkeeping.
func Same(a, b *v1.Pod) bool {
	return a == b || a.UID == b.UID &&
		sameSpec(a, b) &&
		maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		a.DeletionTimestamp.Equal(b.DeletionTimestamp) &&
		samePointer(a.DeletionGracePeriodSeconds, b.DeletionGracePeriodSeconds) &&
		podspec.Finished(a) == podspec.Finished(b) && sameClaims(&a.Status, &b.Status) &&
		sameConditions(a.Status.Conditions, b.Status.Conditions)
}

// sameSpec compares generations, which count changes of a pod's spec since v1.33 (KEP-5067). An
// older apiserver leaves them 0.
func sameSpec(a, b *v1.Pod) bool {
	if a.Generation != 0 && b.Generation != 0 {
		return a.Generation == b.Generation
	}
	return apiequality.Semantic.DeepEqual(&a.Spec, &b.Spec)
}

func sameClaims(a, b *v1.PodStatus) bool {
	return len(a.ResourceClaimStatuses)+len(b.ResourceClaimStatuses) == 0 ||
		apiequality.Semantic.DeepEqual(a.ResourceClaimStatuses, b.ResourceClaimStatuses)
}

// sameConditions compares the conditions of other components, which include readiness gates.
func sameConditions(a, b []v1.PodCondition) bool {
	i, j := 0, 0
	for {
		for i < len(a) && podstatus.Ours(a[i].Type) {
			i++
		}
		for j < len(b) && podstatus.Ours(b[j].Type) {
			j++
		}
		if i == len(a) || j == len(b) {
			return i == len(a) && j == len(b)
		}
		if a[i].Type != b[j].Type || a[i].Status != b[j].Status || a[i].Reason != b[j].Reason ||
			a[i].Message != b[j].Message {
			return false
		}
		i++
		j++
	}
}

func samePointer(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }

// Compare compares two versions of an object by their resource versions (KEP-5504): -1 if a is
// older. If they can't be compared, they are equal if identical; otherwise b counts as newer.
func Compare(a, b string) int {
	if a == b {
		return 0
	}
	if c, err := resourceversion.CompareResourceVersion(a, b); err == nil {
		return c
	}
	return -1
}

// Restored says whether a watch went back from old to an older version of the same object. That
// happens only if the apiserver's store was restored from a backup.
func Restored(old, now metav1.Object) bool {
	return old.GetUID() == now.GetUID() && Compare(old.GetResourceVersion(), now.GetResourceVersion()) > 0
}

// Insert puts a pod into a list ordered by age and name, replacing another pod of its name. It
// returns the new list and the replaced pod. list itself does not change.
func Insert(list []*v1.Pod, p *v1.Pod) (out []*v1.Pod, old *v1.Pod) {
	if i := Index(list, p.Namespace, p.Name); i >= 0 {
		old = list[i]
		if older(old, p) == 0 {
			out = slices.Clone(list)
			out[i] = p
			return out, old
		}
		list = slices.Delete(slices.Clone(list), i, i+1)
	}
	i, _ := slices.BinarySearchFunc(list, p, older)
	return slices.Insert(slices.Clip(list), i, p), old
}

// Sorted returns the list in order of age and name.
func Sorted(list []*v1.Pod) []*v1.Pod {
	out := slices.Clone(list)
	slices.SortFunc(out, older)
	return out
}

// Index finds a pod by its name; -1 if there is none.
func Index(list []*v1.Pod, namespace, name string) int {
	return slices.IndexFunc(list, func(p *v1.Pod) bool { return p.Name == name && p.Namespace == namespace })
}

// older orders pods by their arrival on the node, as far as it is known.
func older(a, b *v1.Pod) int {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	if a.Namespace != b.Namespace {
		if a.Namespace < b.Namespace {
			return -1
		}
		return 1
	}
	switch {
	case a.Name < b.Name:
		return -1
	case a.Name > b.Name:
		return 1
	}
	return 0
}
