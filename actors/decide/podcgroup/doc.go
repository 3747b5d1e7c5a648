// Package podcgroup decides which cgroups a node has above those of its containers, with their
// names and limits.
//
//	<cgroupRoot>/kubepods              what pods may have of the node
//	├── pod<UID>                       a Guaranteed pod
//	├── burstable                      as much CPU as its pods ask for
//	│   └── pod<UID>
//	└── besteffort                     what is left
//	    └── pod<UID>
//
// It is the hierarchy of the kubelet, so that a node can change agents, and readers (cadvisor, node
// exporters) find what they know.
package podcgroup
