package nodeobject

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Lease is the node's lease, renewed now from the last known one; nil for none. The Node object
// owns it, so that both are deleted together; while the Node is unknown (nil) the owner stays.
// renewTime never goes back, even if the clock does, because the control plane counts only a later
// one as a sign of life.
func Lease(
	name string, node *v1.Node, last *coordinationv1.Lease, duration time.Duration, now time.Time,
) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceNodeLease, Name: name}}
	if last != nil {
		shared := *last
		l = &shared
	}
	now = now.Round(0) // as the API has it: a monotonic reading would be compared instead
	if r := l.Spec.RenewTime; r != nil && !now.After(r.Time) {
		now = r.Add(time.Microsecond) // the resolution of the API
	}
	seconds, at := int32(duration/time.Second), metav1.NewMicroTime(now)
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = &name, &seconds, &at
	if node == nil ||
		slices.ContainsFunc(l.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == node.UID }) {
		return l
	}
	l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	return l
}
