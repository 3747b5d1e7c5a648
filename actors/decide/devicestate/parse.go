package devicestate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// file is the checkpoint's form on disk. Kubelets from 1.37 on add BootID, which the checksum does not cover.
type file struct {
	Data     content
	Checksum uint64
}

// content is what the checksum covers.
type content struct {
	PodDeviceEntries  []entry
	RegisteredDevices map[string][]string
}

// entry are the devices of one resource that a container has. AllocResp is the plugin's answer (device plugin API,
// ContainerAllocateResponse): what the container was created with.
type entry struct {
	PodUID        string
	ContainerName string
	ResourceName  string
	DeviceIDs     deviceIDs
	AllocResp     []byte
}

// deviceIDs are devices by NUMA node, or, before Kubernetes 1.20, a list without one.
type deviceIDs struct {
	byNUMA map[int64][]string
	list   []string
	isList bool
}

// MarshalJSON implements json.Marshaler.
func (d deviceIDs) MarshalJSON() ([]byte, error) {
	if d.isList {
		return json.Marshal(d.list)
	}
	return json.Marshal(d.byNUMA)
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *deviceIDs) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		d.isList = true
		return json.Unmarshal(data, &d.list)
	}
	return json.Unmarshal(data, &d.byNUMA)
}

func (e *entry) grant() Grant {
	g := Grant{Resource: v1.ResourceName(e.ResourceName), IDs: e.DeviceIDs.byNUMA, Response: e.AllocResp}
	if e.DeviceIDs.isList {
		g.IDs = map[int64][]string{NoNUMA: e.DeviceIDs.list}
	}
	return g
}

// Name is the name of the checkpoint in its directory.
const Name = "kubelet_internal_checkpoint"

// Format is the checkpoint with what containers have. healthy are the healthy devices of all resources that device
// plugins have registered. It is in the form of a kubelet of version 1.36, with its checksum.
func Format(healthy map[v1.ResourceName][]string, given Grants) []byte {
	f := file{Data: content{RegisteredDevices: map[string][]string{}}}
	for name, ids := range healthy { // order-free: a map again
		f.Data.RegisteredDevices[string(name)] = append([]string{}, ids...)
	}
	for _, uid := range slices.Sorted(maps.Keys(given)) {
		for _, container := range slices.Sorted(maps.Keys(given[uid])) {
			for _, g := range given[uid][container] {
				f.Data.PodDeviceEntries = append(f.Data.PodDeviceEntries, entry{
					PodUID: string(uid), ContainerName: container, ResourceName: string(g.Resource),
					DeviceIDs: deviceIDs{byNUMA: g.IDs}, AllocResp: append([]byte{}, g.Response...),
				})
			}
		}
	}
	f.Checksum = f.Data.checksum()
	data, err := json.Marshal(f)
	if err != nil {
		panic("devicestate: values that JSON has no form for: " + err.Error())
	}
	return data
}

// Parse reads the checkpoint of a kubelet's device manager. It fails if the file is damaged: if it is not JSON of
// this form, its checksum is wrong, or a name in it could not be that of a device plugin's resource.
func Parse(data []byte) (*State, error) {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if is := f.Data.checksum(); is != f.Checksum {
		return nil, fmt.Errorf("the checksum of the content is %d, not %d as when it was written", is, f.Checksum)
	}
	s := &State{plugins: map[v1.ResourceName]bool{}, given: map[holder][]Device{}, grants: map[holder][]Grant{}}
	for name := range f.Data.RegisteredDevices { // order-free: a set
		s.plugins[v1.ResourceName(name)] = true
	}
	for i := range f.Data.PodDeviceEntries {
		e := &f.Data.PodDeviceEntries[i]
		s.plugins[v1.ResourceName(e.ResourceName)] = true
		of := holder{types.UID(e.PodUID), e.ContainerName}
		s.given[of] = append(s.given[of], e.devices()...)
		slices.SortFunc(s.given[of], compare)
		s.grants[of] = append(s.grants[of], e.grant())
		slices.SortFunc(s.grants[of], func(a, b Grant) int { return cmp.Compare(a.Resource, b.Resource) })
	}
	for _, name := range s.Resources() {
		if !podspec.IsExtended(name) {
			return nil, fmt.Errorf("%q is not the name of an extended resource", name)
		}
	}
	return s, nil
}
