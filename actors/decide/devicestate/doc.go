// Package devicestate knows which resources of a node are devices of device plugins, which devices a kubelet gave
// to containers, and which devices of a pod this node can't give.
//
// It reads the checkpoint of the kubelet's device manager (<root>/device-plugins/kubelet_internal_checkpoint), which
// is all that a kubelet leaves of its device plugins. Nothing here writes it: a kubelet that comes back finds it as
// it was.
package devicestate
