// Package devices decides which devices of device plugins containers get, and what a container with devices is created
// with.
//
// Sources: kubernetes.io, "Device Plugins"; KEP-3573 (device plugins), KEP-693 (topology hints), KEP-4009 (CDI
// names), the device plugin API v1beta1.
//
// All functions are pure.
package devices

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Device is one that a plugin has listed (ListAndWatch).
type Device struct {
	ID string
	// Healthy devices are given to containers, others are not.
	Healthy bool
	// Nodes are the NUMA nodes that it is near to; none: the plugin named none.
	Nodes []int64
}

// Same says whether two lists of a plugin say the same.
func Same(a, b []Device) bool {
	return slices.EqualFunc(a, b, func(x, y Device) bool {
		return x.ID == y.ID && x.Healthy == y.Healthy && slices.Equal(x.Nodes, y.Nodes)
	})
}

// Options are what a plugin wants to be asked (DevicePluginOptions).
type Options struct {
	// Preferred: before an allocation, which devices it prefers (GetPreferredAllocation).
	Preferred bool
	// PreStart: before the start of a container with devices (PreStartContainer).
	PreStart bool
}

// Resource is what one device plugin offers. It is never mutated.
type Resource struct {
	// Devices are sorted by their IDs, which are unique.
	Devices []Device
	Options Options
	// Served: the plugin answers. Otherwise the devices are its last ones, none of which is healthy.
	Served bool
	// Awaited: it does not, and may come soon. Pods that need its devices wait.
	Awaited bool
	// Forgotten: it was gone for so long that the next agent need not know of it.
	Forgotten bool
}

// Inventory is what all device plugins of a node offer. It has those that are gone, too. It is never mutated.
type Inventory map[v1.ResourceName]*Resource

// Names are the resources, sorted.
func (i Inventory) Names() []v1.ResourceName { return slices.Sorted(maps.Keys(i)) }

// Count is how many devices of a resource there are, and how many of them are healthy: the capacity of the node, and
// what is allocatable.
func (i Inventory) Count(name v1.ResourceName) (all, healthy int64) {
	r := i[name]
	if r == nil {
		return 0, 0
	}
	return int64(len(r.Devices)), int64(len(i.HealthyOf(name)))
}

// Missing is the inventory with the resources that it has not, and that an earlier one has: they are waited for.
func (i Inventory) Missing(before Inventory) Inventory {
	out := maps.Clone(i)
	for name, r := range before { // order-free: a map again
		if out[name] == nil && r.Forgotten {
			out[name] = r
		} else if out[name] == nil {
			out[name] = &Resource{Devices: r.Devices, Options: r.Options, Awaited: true}
		}
	}
	return out
}

// Registered are the healthy devices of each resource that is not forgotten, sorted: what the checkpoint says.
func (i Inventory) Registered() map[v1.ResourceName][]string {
	out := make(map[v1.ResourceName][]string, len(i))
	for name, r := range i { // order-free: a map again
		if r.Forgotten {
			continue
		}
		out[name] = []string{}
		for _, d := range i.HealthyOf(name) {
			out[name] = append(out[name], d.ID)
		}
	}
	return out
}

// HealthyOf are the healthy devices of a resource. Those of a plugin that does not answer are not.
func (i Inventory) HealthyOf(name v1.ResourceName) (out []Device) {
	r := i[name]
	if r == nil || !r.Served {
		return nil
	}
	for _, d := range r.Devices {
		if d.Healthy {
			out = append(out, d)
		}
	}
	return out
}
