package nodeobject

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
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
		case !podspec.IsExtended(name):
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

// Devices are how many devices of a resource a node has, and how many of them are healthy.
type Devices struct{ All, Healthy int64 }

// withDevices sets the devices of device plugins: all of them in the capacity, those that are healthy in what is
// allocatable.
func withDevices(list v1.ResourceList, of map[v1.ResourceName]Devices, count func(Devices) int64) v1.ResourceList {
	if len(of) == 0 {
		return list
	}
	out := maps.Clone(list)
	if out == nil {
		out = v1.ResourceList{}
	}
	for name, d := range of { // order-free: a map again
		out[name] = *resource.NewQuantity(count(d), resource.DecimalSI)
	}
	return out
}

func none() resource.Quantity { return *resource.NewQuantity(0, resource.DecimalSI) }

// resources are the machine's, together with the extended resources that the node shows.
func resources(own *Own, f *Facts, have *v1.NodeStatus) (capacity, allocatable v1.ResourceList) {
	more := own.extended(have.Capacity, f.Reset)
	capacity, allocatable = WithExtended(f.Capacity, more), WithExtended(f.Allocatable, more)
	return withDevices(capacity, f.Devices, func(d Devices) int64 { return d.All }),
		withDevices(allocatable, f.Devices, func(d Devices) int64 { return d.Healthy })
}

// WithExtended is what the machine has, together with the extended resources of have. It may be the same map.
func WithExtended(machine, have v1.ResourceList) v1.ResourceList {
	out, own := machine, false
	for name, q := range have { // order-free: a map again
		if _, known := machine[name]; known || !podspec.IsExtended(name) {
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

// Shown is the node with the resources and addresses that it shows from its next write on. Pods are admitted by these:
// what an earlier agent could give is not given once more before that write. Only what f has of the machine counts, and
// nothing that an earlier agent wrote, but for addresses that a cloud's controller sets. It may be the same node.
// Devices of device plugins are left out: who gives them knows how many there are.
func Shown(own *Own, have *v1.Node, f Facts) *v1.Node {
	capacity, allocatable := resources(own, &f, &have.Status)
	for name := range f.Devices { // order-free: each on its own
		delete(capacity, name)
		delete(allocatable, name)
	}
	addresses := own.addresses(f.Addresses, have.Status.Addresses)
	if podspec.SameResources(capacity, have.Status.Capacity) &&
		podspec.SameResources(allocatable, have.Status.Allocatable) && slices.Equal(addresses, have.Status.Addresses) {
		return have
	}
	n := *have
	n.Status.Capacity, n.Status.Allocatable, n.Status.Addresses = capacity, allocatable, addresses
	return &n
}

// Allocatable is what a node from Shown has for pods; at is what the machine has if nobody has read that yet.
func Allocatable(n *v1.Node, at v1.ResourceList) v1.ResourceList {
	return WithExtended(Native(n.Status.Allocatable, at), n.Status.Allocatable)
}

// Native are the resources of the machine in a list of a node from Shown, and at if it has none: nobody has read them
// yet.
func Native(list, at v1.ResourceList) v1.ResourceList {
	out := maps.Clone(list)
	maps.DeleteFunc(out, func(name v1.ResourceName, _ resource.Quantity) bool { return podspec.IsExtended(name) })
	if len(out) == 0 {
		return at
	}
	return out
}

// SameExtended says whether two nodes can give the same extended resources.
func SameExtended(a, b *v1.Node) bool {
	return podspec.SameResources(WithExtended(nil, a.Status.Allocatable), WithExtended(nil, b.Status.Allocatable))
}
