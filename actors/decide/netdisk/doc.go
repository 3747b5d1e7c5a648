// Package netdisk decides about disks that a machine reaches over a network: LUNs of iSCSI targets and of Fibre Channel
// (core/v1 ISCSIVolumeSource, FCVolumeSource). It decides where they are mounted, what is done next to attach one, and
// what may go when a pod has ended.
//
// A disk is mounted once for all pods, in a directory with the name that a kubelet gives it, and bound from there into
// each pod. Each pod that uses it has a note; the disk goes with the last note.
package netdisk
