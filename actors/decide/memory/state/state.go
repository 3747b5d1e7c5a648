// Package state has the content of the kubelet's state file of memory as Go values. The names of this package and of
// its types are a part of the format: the checksum is over the values as text, and that names them.
package state

import v1 "k8s.io/api/core/v1"

// MemoryManagerCheckpoint is the file, without its checksum.
type MemoryManagerCheckpoint struct {
	PolicyName   string                     `json:"policyName"`
	MachineState NUMANodeMap                `json:"machineState"`
	Entries      ContainerMemoryAssignments `json:"entries,omitempty"`
}

// NUMANodeMap has the NUMA nodes by their numbers.
type NUMANodeMap map[int]*NUMANodeState

// NUMANodeState is one node.
type NUMANodeState struct {
	// NumberOfAssignments is how many blocks come from it, also partly.
	NumberOfAssignments int `json:"numberOfAssignments"`
	// MemoryMap has its memory by kind.
	MemoryMap map[v1.ResourceName]*MemoryTable `json:"memoryMap"`
	// Cells are the nodes that it gives memory together with, and itself.
	Cells []int `json:"cells"`
}

// MemoryTable is memory of one kind, in bytes.
type MemoryTable struct {
	TotalMemSize   uint64 `json:"total"`
	SystemReserved uint64 `json:"systemReserved"`
	Allocatable    uint64 `json:"allocatable"`
	Reserved       uint64 `json:"reserved"`
	Free           uint64 `json:"free"`
}

// ContainerMemoryAssignments are the blocks of containers, by the UIDs of their pods and their names.
type ContainerMemoryAssignments map[string]map[string][]Block

// Block is memory of one kind that a container has.
type Block struct {
	NUMAAffinity []int           `json:"numaAffinity"`
	Type         v1.ResourceName `json:"type"`
	Size         uint64          `json:"size"`
}
