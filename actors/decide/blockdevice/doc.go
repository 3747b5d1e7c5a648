// Package blockdevice decides about the block devices of volumes: how disks are attached over a network, and how a
// device is formatted, checked, mounted and grown.
//
// # Disks of a network
//
// It decides about disks that a machine reaches over a network: LUNs of iSCSI targets and of Fibre Channel (core/v1
// ISCSIVolumeSource, FCVolumeSource). It decides where they are mounted, what is done next to attach one, and what may
// go when a pod has ended.
//
// A disk is mounted once for all pods, in a directory with the name that a kubelet gives it, and bound from there into
// each pod. Each pod that uses it has a note; the disk goes with the last note.
//
// # File systems
//
// It decides how a block device is formatted, checked and mounted, and how its file system is grown, by what blkid(8)
// found on it.
//
// The rules are those of a kubelet: a device on which blkid finds nothing is formatted, unless it is mounted read-only;
// any other device never is. One that has the file system that is wanted is checked with fsck(8) first, unless it is
// mounted read-only. (A kubelet checks whatever it finds.)
//
//	nothing found ──────────► format ──────────┐
//	the file system wanted ─► check (fsck -a) ─┼──► mount
//	anything else ─────────────────────────────┘    (fails, and says what was found)
//
// Whether a device can be read at all is for the caller to find out: blkid finds nothing on one that can't be.
package blockdevice
