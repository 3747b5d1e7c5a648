// Package cpus is the CPU manager: it decides which containers get CPUs for themselves alone, and which, over the state
// of all pods, and keeps that in the form of a kubelet.
//
// # The static policy
//
// It decides which containers get exclusive CPUs, and which CPUs: the static policy of the kubelet's CPU manager
// (cpuManagerPolicy: static).
//
// Sources: kubernetes.io, "Control CPU Management Policies on the Node"; KEP-3570 (the policy), KEP-2625
// (full-pcpus-only), KEP-2902 (distribute-cpus-across-numa), KEP-3327 (align-by-socket), KEP-4176
// (distribute-cpus-across-cores), KEP-4540 (strict-cpu-reservation), KEP-4800 (prefer-align-cpus-by-uncorecache),
// KEP-5526 (pod-level resources).
//
// The CPUs that are online are in three parts. [Reserve] takes those of the system. [Take] gives some of the others to
// a container alone, if [Exclusive] says so. [Shared] are all that no container has alone, where everything else runs;
// with strict-cpu-reservation without those of the system. [Hints] are the NUMA nodes that CPUs could come from.
//
// CPUs are packed, to leave large parts of the machine free for others. As long as as many CPUs are wanted, whole
// sockets are taken, then whole NUMA nodes (first nodes, if they are not smaller than sockets), then whole cores, then
// single CPUs. Of like parts, those whose surroundings have the fewest free CPUs are used first. The options:
//
//	full-pcpus-only                   only whole cores, or an error
//	distribute-cpus-across-numa       as many CPUs of each node, of all nodes of the affinity, or of as few as possible;
//	                                  packed if that cannot be
//	align-by-socket                   an affinity is to the sockets of its nodes
//	distribute-cpus-across-cores      no whole cores: one CPU of each core in turns, free cores first, socket by socket
//	strict-cpu-reservation            nothing else runs on the CPUs of the system
//	prefer-align-cpus-by-uncorecache  after whole nodes whole caches, then a cache that has enough
//
// Where all cores, nodes and sockets are alike, the steps are those of the kubelet. Where they are not, as with single
// CPUs offline, the kubelet calculates with averages and this package with the parts as they are. Three more
// differences are meant: full-pcpus-only holds even if an affinity has an odd number of CPUs, CPUs to reuse count as
// available for it, and nodes are balanced by exact figures.
//
// # Assignment
//
// It decides what the containers of a pod get for themselves alone, over the state of all pods: CPUs, by the static
// policy of the CPU manager, and what other providers have, such as devices, near to each other as the topology manager
// wants it (package topology).
//
//	Place     state + pod + providers ──► CPUs of each entitled container, or the pod's rejection
//	Resize    the same for a pod that runs and asks for other resources, or why not
//	Shared    state ──► the CPUs of all other containers
//	Check     state + standalone ──► why they don't fit
//	Aligned   pod + its CPUs ──► what of it is aligned, for metrics
//
// A container keeps what it has, across its restarts, for as long as its pod is here. Only a resize changes that. CPUs
// of init containers that later ones do not use again are lost to the node as long (kubernetes #112228).
//
// # The state file
//
// It reads and writes the state file of the kubelet's CPU manager (cpu_manager_state in its root directory), so that a
// node can change between a kubelet and this agent while containers have exclusive CPUs.
//
//	{"policyName":"static","defaultCpuSet":"0,2-3","entries":{"POD UID":{"CONTAINER":"1"}},"checksum":123}
//
// That is version 2 of the format, which the kubelet writes unless its feature gate PodLevelResourceManagers is on.
//
// # Placement
//
// [Placement] is the value that says on which CPUs, and near to which memory, the containers of a pod run.
package cpus
