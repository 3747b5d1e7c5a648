// Package devicestate is the checkpoint of the kubelet's device manager
// (/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint): which resources of a node are devices of device
// plugins, and which devices containers have. It also says which devices of a pod this node can't give.
//
// The agent reads and writes it in the kubelet's form, so that a node can change over while containers have devices.
//
// [Health] is the value that says how the devices of a pod's containers are (KEP-4680).
package devicestate
