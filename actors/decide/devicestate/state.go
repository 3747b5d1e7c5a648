package devicestate

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// State is what is known of the devices of device plugins on this node. It is immutable. Nil: there never were any.
type State struct {
	// plugins are the resources that a device plugin has registered here, or that pods have devices of.
	plugins map[v1.ResourceName]bool
	given   map[holder][]Device
	lost    string
}

// holder is a container of a pod.
type holder struct {
	uid       types.UID
	container string
}

// NoNUMA is the NUMA node of a device of which the plugin named none.
const NoNUMA = -1

// Device is one that a container has. One that is near to several NUMA nodes is there once for each.
type Device struct {
	Resource v1.ResourceName
	ID       string
	NUMA     int64
}

// Unknown is the state of a node whose checkpoint can't be used, or is gone as with a new disk. why tells one loss
// from another, and is not empty.
func Unknown(why string) *State { return &State{lost: why} }

// Lost is empty if the checkpoint was read, or if there never was any. Otherwise nobody knows which of the extended
// resources of the Node object were those of device plugins.
func (s *State) Lost() string {
	if s == nil {
		return ""
	}
	return s.lost
}

// Plugin says whether a resource is one of a device plugin. No plugin serves it now.
func (s *State) Plugin(name v1.ResourceName) bool { return s != nil && s.plugins[name] }

// Resources are those of device plugins, sorted.
func (s *State) Resources() []v1.ResourceName {
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.plugins))
}

// Of are the devices that a kubelet gave to a container, sorted.
func (s *State) Of(uid types.UID, container string) []Device {
	if s == nil {
		return nil
	}
	return s.given[holder{uid, container}]
}

// compare orders devices.
func compare(a, b Device) int {
	return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.ID, b.ID), cmp.Compare(a.NUMA, b.NUMA))
}

// devices are those of an entry.
func (e *entry) devices() (out []Device) {
	add := func(numa int64, ids []string) {
		for _, id := range ids {
			out = append(out, Device{v1.ResourceName(e.ResourceName), id, numa})
		}
	}
	add(NoNUMA, e.DeviceIDs.list)
	for _, numa := range slices.Sorted(maps.Keys(e.DeviceIDs.byNUMA)) {
		add(numa, e.DeviceIDs.byNUMA[numa])
	}
	return out
}
