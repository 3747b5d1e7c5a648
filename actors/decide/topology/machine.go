package topology

import (
	"slices"

	"k8s.io/utils/cpuset"
)

// CPU is one logical CPU that is online. Its numbers are unique on the whole machine: two CPUs of the same core,
// and no others, have the same Core.
type CPU struct {
	// ID is the kernel's number.
	ID int
	// Core is the lowest ID of the CPUs of its core, and Cache that of the CPUs with which it shares its last level
	// cache of level 3 or above (called uncore cache in Kubernetes), or its socket if it has no such cache.
	Core, Cache int
	// Socket and Node are the kernel's numbers of the physical package and of the NUMA node.
	Socket, Node int
}

// Node is a NUMA node. It may have no CPUs, as memory behind CXL, or no memory.
type Node struct {
	ID int
	// Memory is its size in bytes, without what the kernel keeps for itself.
	Memory uint64
	// HugePages are how many huge pages it has, by their size in bytes.
	HugePages map[uint64]uint64
	// Distances are those to the nodes in the order of [Machine.Nodes], 10 to itself (ACPI SLIT).
	Distances []int
}

// Machine is a machine. CPUs and Nodes are ordered by ID. It is never mutated.
type Machine struct {
	CPUs  []CPU
	Nodes []Node
}

// All are the CPUs of the machine.
func (t *Machine) All() cpuset.CPUSet {
	return t.Where(func(CPU) bool { return true })
}

// Where are the CPUs that fulfil a condition.
func (t *Machine) Where(is func(CPU) bool) cpuset.CPUSet {
	var ids []int
	for _, c := range t.CPUs {
		if is(c) {
			ids = append(ids, c.ID)
		}
	}
	return cpuset.New(ids...)
}

// CPU finds a CPU by its ID.
func (t *Machine) CPU(id int) (CPU, bool) {
	i, found := slices.BinarySearchFunc(t.CPUs, id, func(c CPU, id int) int { return c.ID - id })
	if !found {
		return CPU{}, false
	}
	return t.CPUs[i], true
}

// Node finds a NUMA node by its ID.
func (t *Machine) Node(id int) (Node, bool) {
	i, found := slices.BinarySearchFunc(t.Nodes, id, func(n Node, id int) int { return n.ID - id })
	if !found {
		return Node{}, false
	}
	return t.Nodes[i], true
}
