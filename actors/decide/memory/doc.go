// Package memory decides from which NUMA nodes containers get their memory and huge pages, as the memory manager of the
// kubelet does with memoryManagerPolicy Static.
//
// Sources: kubernetes.io, "Control Memory Management Policies on a Node"; KEP-1769.
//
//	New       machine + reservedMemory ──► Rules, or what does not fit
//	Place     state + pod ──► a topology.Provider: hints, and blocks of each container
//	Count     state ──► what is taken of each node, or why an agent can't continue with it
//
// Each container of a Guaranteed pod is bound to a set of nodes that have all that it asks for, as few as possible.
// Nodes that have given memory together, as a group, give it to nobody else but as this group: otherwise a container
// that is bound to one node could find its memory taken by one that may use others too.
//
// # The state file
//
// It reads and writes the state file of the kubelet's memory manager (memory_manager_state in its root directory), so
// that a node can change between a kubelet and this agent while containers have memory of their own.
//
//	{"policyName":"Static","machineState":{"0":{…}},"entries":{"POD UID":{"CONTAINER":[{…}]}},"checksum":123}
//
// That is version 1 of the format, which the kubelet writes unless its feature gate PodLevelResourceManagers is on.
package memory
