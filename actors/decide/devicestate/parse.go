package devicestate

import (
	"encoding/json"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/resourcelist"
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

// UnmarshalJSON implements json.Unmarshaler.
func (d *deviceIDs) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		d.isList = true
		return json.Unmarshal(data, &d.list)
	}
	return json.Unmarshal(data, &d.byNUMA)
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
	s := &State{plugins: map[v1.ResourceName]bool{}, given: map[holder][]Device{}}
	for name := range f.Data.RegisteredDevices { // order-free: a set
		s.plugins[v1.ResourceName(name)] = true
	}
	for i := range f.Data.PodDeviceEntries {
		e := &f.Data.PodDeviceEntries[i]
		s.plugins[v1.ResourceName(e.ResourceName)] = true
		of := holder{types.UID(e.PodUID), e.ContainerName}
		s.given[of] = append(s.given[of], e.devices()...)
		slices.SortFunc(s.given[of], compare)
	}
	for _, name := range s.Resources() {
		if !resourcelist.Extended(name) {
			return nil, fmt.Errorf("%q is not the name of an extended resource", name)
		}
	}
	return s, nil
}
