// Package placement is the value that says on which CPUs, and near to which memory, the containers of a pod run.
package placement

// Container is where one container runs. Both are lists as the kernel and the CRI have them (cpuset(7), formats for
// lists; LinuxContainerResources.cpuset_cpus and cpuset_mems). Empty: anywhere.
type Container struct {
	CPUs string `json:"cpus,omitempty"`
	Mems string `json:"mems,omitempty"`
}

// Pod is where the containers of a pod run; nil for anywhere. It is never mutated.
type Pod struct {
	// Own are containers with CPUs that they have alone, by name.
	Own map[string]Container
	// Shared are the CPUs of the others.
	Shared string
}

// At is where a container runs.
func (p *Pod) At(container string) Container {
	if p == nil {
		return Container{}
	}
	if own, has := p.Own[container]; has {
		return own
	}
	return Container{CPUs: p.Shared}
}
