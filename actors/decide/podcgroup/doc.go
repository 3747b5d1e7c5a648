// Package podcgroup decides which cgroups a node has above those of its
// containers, what they are named, and which limits they have.
//
//	<cgroupRoot>/kubepods              what pods may have of the node
//	├── pod<UID>                       a Guaranteed pod
//	├── burstable                      as much CPU as its pods ask for
//	│   └── pod<UID>
//	└── besteffort                     what is left
//	    └── pod<UID>
//
// It is the hierarchy of the kubelet, so that a node changes from one agent to
// the other, and what reads it (cadvisor, node exporters) finds what it knows.
package podcgroup
