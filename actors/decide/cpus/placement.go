package cpus

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
)

// ContainerPlacement is where one container runs. Both are lists as the kernel and the CRI have them (cpuset(7),
// formats for lists; LinuxContainerResources.cpuset_cpus and cpuset_mems). Empty: anywhere.
type ContainerPlacement struct {
	CPUs string `json:"cpus,omitempty"`
	Mems string `json:"mems,omitempty"`
}

// Placement is where the containers of a pod run; nil for anywhere. It is never mutated.
type Placement struct {
	// Own are containers with CPUs or memory that they have alone, by name.
	Own map[string]ContainerPlacement
	// Shared are the CPUs of containers without exclusive CPUs.
	Shared string
	// Devices are what containers with devices are created with, by name.
	Devices map[string]*devices.Given
	// Unknown is why containers can't be created, by name: nobody knows which devices they had.
	Unknown map[string]string
	// Number is that of the resize that has containers run elsewhere, 0 for none: the pod's actor says when all run where
	// they are to.
	Number uint64
	// Health is how the devices of containers are.
	Health devicestate.Health
}

// HealthOf is how the devices of a container are, as far as that is known.
func (p *Placement) HealthOf(container string) []v1.ResourceStatus {
	if p == nil {
		return nil
	}
	return p.Health[container]
}

// Given is what a container is created with for its devices, nil for nothing.
func (p *Placement) Given(container string) *devices.Given {
	if p == nil {
		return nil
	}
	return p.Devices[container]
}

// Lacks is why a container can't be created, empty if it can.
func (p *Placement) Lacks(container string) string {
	if p == nil {
		return ""
	}
	return p.Unknown[container]
}

// At is where a container runs.
func (p *Placement) At(container string) ContainerPlacement {
	if p == nil {
		return ContainerPlacement{}
	}
	at := p.Own[container]
	if at.CPUs == "" {
		at.CPUs = p.Shared
	}
	return at
}
