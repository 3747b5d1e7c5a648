package nodestatus

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// tellVolumes tells what the Node says of volumes, if that is new.
func (n *nodestatus) tellVolumes() {
	s := n.volumesSeen
	if n.deps.Volumes == nil || n.node == nil || n.node == s {
		return
	}
	if s == nil || s.UID != n.node.UID || !nodeobject.SameVolumes(s, n.node) {
		n.deps.Volumes(n.node)
	}
	n.volumesSeen = n.node
}

// tellAddresses tells the node's addresses, if they are new.
func (n *nodestatus) tellAddresses() {
	if n.deps.Addresses != nil && n.node != nil && !slices.Equal(n.addresses, n.node.Status.Addresses) {
		n.addresses = n.node.Status.Addresses
		n.deps.Addresses(n.addresses)
	}
}

// tell sends the node to podset and mirrors.
func (n *nodestatus) tell(ctx *kernel.Context[Message]) {
	n.tellVolumes()
	n.tellAddresses()
	if n.node == nil || n.node == n.seen || n.reset.loading() {
		return
	}
	if s := n.seen; s != nil && s.UID == n.node.UID && s.Spec.Unschedulable != n.node.Spec.Unschedulable {
		n.record(ctx, nodeobject.Schedulable(n.deps.Own.Name, n.node.Spec.Unschedulable))
	}
	if s := n.seen; s == nil || s.UID != n.node.UID || !maps.Equal(s.Labels, n.node.Labels) ||
		!slices.EqualFunc(s.Spec.Taints, n.node.Spec.Taints, func(a, b v1.Taint) bool {
			return a.MatchTaint(&b) && a.Value == b.Value
		}) || !nodeobject.SameExtended(s, n.node) || !sameFeatures(s.Status.Features, n.node.Status.Features) ||
		n.deps.Own.Cloud && !slices.Equal(s.Status.Addresses, n.node.Status.Addresses) {
		f := nodeobject.Facts{Devices: n.devices, Reset: n.resetDue(n.node)}
		if m := n.machine; m != nil {
			f.Capacity, f.Allocatable, f.Addresses = m.Capacity, m.Allocatable, m.Addresses
		}
		shown := nodeobject.Shown(n.deps.Own, n.node, f)
		n.deps.Seen(shown)
		if n.changing && n.deps.Changed != nil {
			n.deps.Changed(shown)
		}
	}
	n.seen = n.node
}
