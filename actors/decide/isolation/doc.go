// Package isolation decides what keeps the pods of a node apart from each other and from the node: AppArmor profiles,
// SELinux labels of volumes, and user IDs of user namespaces.
//
// # AppArmor
//
// [AppArmorProfile] reads a container's AppArmor profile from the pod.
//
// # SELinux
//
// [SELinuxHost] decides with which label a volume of a pod is mounted (KEP-1710: the mount option context=), so that
// the runtime need not give it to each file. Labels of files are the policy's for containers, with the level and user
// of the pod's seLinuxOptions.
//
// # User namespaces
//
// [IDRange] decides which user IDs of the node a pod with its own user namespace gets (core/v1 PodSpec.hostUsers:
// false, KEP-127).
//
// The node's IDs for pods are divided into blocks of equal length. A pod has one block, from the start of its sandbox
// until its directory is removed. The block is recorded in that directory, in the kubelet's form, so that either agent
// finds the blocks of the other.
//
// The highest number, 2³²-1, is no ID: the kernel maps none to it (user_namespaces(7)), so it is in no block.
//
//	0 … PerPod │ block 0 │ block 1 │ … │ block Blocks-1 │ … 2³²-2
package isolation
