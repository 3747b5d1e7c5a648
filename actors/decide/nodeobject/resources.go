package nodeobject

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/resourcelist"
)

// extended are the extended resources that a node shows, given its capacity so far. Those that others added by a
// patch of the status stay (Kubernetes task "Advertise Extended Resources for a Node"), unless reset. Those of device
// plugins are 0, as a kubelet shows them from its start until their plugin registers. They are not left out: a
// scheduler takes a resource that no node has for one of the cluster.
func (o *Own) extended(have v1.ResourceList, reset bool) v1.ResourceList {
	var out v1.ResourceList
	set := func(name v1.ResourceName, q resource.Quantity) {
		if out == nil {
			out = v1.ResourceList{}
		}
		out[name] = q
	}
	for name, q := range have { // order-free: a map again
		switch {
		case !resourcelist.Extended(name):
		case reset:
			set(name, none())
		default:
			set(name, q)
		}
	}
	for _, name := range o.Unserved {
		set(name, none())
	}
	return out
}

func none() resource.Quantity { return *resource.NewQuantity(0, resource.DecimalSI) }

// resources are the machine's, together with the extended resources that the node shows.
func resources(own *Own, f *Facts, have *v1.NodeStatus) (capacity, allocatable v1.ResourceList) {
	more := own.extended(have.Capacity, f.Reset)
	return WithExtended(f.Capacity, more), WithExtended(f.Allocatable, more)
}

// WithExtended is what the machine has, together with the extended resources of have. It may be the same map.
func WithExtended(machine, have v1.ResourceList) v1.ResourceList {
	out, own := machine, false
	for name, q := range have { // order-free: a map again
		if _, known := machine[name]; known || !resourcelist.Extended(name) {
			continue
		}
		if !own {
			if out = maps.Clone(machine); out == nil {
				out = v1.ResourceList{}
			}
			own = true
		}
		out[name] = q
	}
	return out
}

// Shown is the node with the extended resources that it shows from its next write on. Pods are admitted by these:
// what an earlier agent could give is not given once more before that write. It may be the same node.
func Shown(own *Own, have *v1.Node, reset bool) *v1.Node {
	f := Facts{Capacity: natives(have.Status.Capacity), Allocatable: natives(have.Status.Allocatable), Reset: reset}
	capacity, allocatable := resources(own, &f, &have.Status)
	if resourcelist.Equal(capacity, have.Status.Capacity) && resourcelist.Equal(allocatable, have.Status.Allocatable) {
		return have
	}
	n := *have
	n.Status.Capacity, n.Status.Allocatable = capacity, allocatable
	return &n
}

// natives are the resources of a list that are not extended ones.
func natives(list v1.ResourceList) v1.ResourceList {
	out := maps.Clone(list)
	maps.DeleteFunc(out, func(name v1.ResourceName, _ resource.Quantity) bool { return resourcelist.Extended(name) })
	return out
}

// SameExtended says whether two nodes can give the same extended resources.
func SameExtended(a, b *v1.Node) bool {
	return resourcelist.Equal(WithExtended(nil, a.Status.Allocatable), WithExtended(nil, b.Status.Allocatable))
}
