// Package csi decides what a CSI driver is asked for next for each volume on this node: when it is staged, published
// for a pod, unpublished and unstaged, and with which parameters (CSI spec, KEP-178). It also decides what the node's
// CSINode shows, when drivers are asked how full their volumes are, and for which volumes the node has no room.
//
// Invariants, which the property test of this package checks over random histories with crashes:
//
//   - A volume is never published while it is not staged, unless it is an inline volume.
//   - It is never unstaged while it is or may be published for a pod.
//   - It is never staged with other parameters than before, unless it was unstaged in between.
//   - What a call may have done, although it failed, is undone before it is given up.
//
// # Migrated kinds
//
// [Migrated] and [MigratedInline] say which CSI volume stands for a volume of a kind that had a driver in Kubernetes
// itself (KEP-625). All of them are migrated in v1.36: nodes, schedulers and controllers see the CSI volume only.
package csi
