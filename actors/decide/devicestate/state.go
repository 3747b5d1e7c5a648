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
	grants  map[holder][]Grant
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

// Grant is what a container has of one resource.
type Grant struct {
	Resource v1.ResourceName
	// IDs are the devices by NUMA node, or [NoNUMA], sorted. One that is near to several nodes is there for each.
	IDs map[int64][]string
	// Response is the plugin's answer (ContainerAllocateResponse), encoded.
	Response []byte
}

// Grants are what containers have, by pod and name. Those of a container are sorted by resource.
type Grants map[types.UID]map[string][]Grant

// All are the devices, sorted.
func (g Grant) All() (out []string) {
	for _, ids := range g.IDs { // order-free: sorted below
		out = append(out, ids...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Grants are what a kubelet, or an agent, gave to containers. The caller may add pods, and take them.
func (s *State) Grants() Grants {
	out := Grants{}
	if s == nil {
		return out
	}
	for of, grants := range s.grants { // order-free: maps again
		if out[of.uid] == nil {
			out[of.uid] = map[string][]Grant{}
		}
		out[of.uid][of.container] = grants
	}
	return out
}

// Answered are the grants of a pod's containers with the answer of one plugin. What there was is not changed.
func Answered(own map[string][]Grant, container string, resource v1.ResourceName, answer []byte) map[string][]Grant {
	out := maps.Clone(own)
	out[container] = slices.Clone(own[container])
	for i := range out[container] {
		if out[container][i].Resource == resource {
			out[container][i].Response = answer
		}
	}
	return out
}

// Without are the grants of a pod's containers without some. What there was is not changed.
func Without(own map[string][]Grant, drop func(container string, g Grant) bool) map[string][]Grant {
	out := map[string][]Grant{}
	for container, grants := range own { // order-free: a map again
		kept := slices.DeleteFunc(slices.Clone(grants), func(g Grant) bool { return drop(container, g) })
		if len(kept) > 0 {
			out[container] = kept
		}
	}
	return out
}

// Names are the devices of a pod's containers by resource, for people.
func Names(own map[string][]Grant) map[string]map[v1.ResourceName][]string {
	out := map[string]map[v1.ResourceName][]string{}
	for container, grants := range own { // order-free: a map again
		out[container] = map[v1.ResourceName][]string{}
		for _, g := range grants {
			out[container][g.Resource] = g.All()
		}
	}
	return out
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
