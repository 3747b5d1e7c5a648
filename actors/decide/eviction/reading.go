// Package eviction decides how a node protects itself while a resource runs short: which thresholds are met,
// which conditions that means, what is given up first, and which pod is evicted.
//
//	Reading ──► thresholds met ──► conditions (held for the transition period)
//	                          └──► images and dead containers ──not enough──► rank ──► one victim ──► Reading
//
// It also decides which pods use more disk than they may.
//
// All functions are pure.
package eviction

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Left is what is left of one resource: bytes, inodes or processes. The zero value means unknown: no
// threshold is met by it.
type Left struct {
	Available, Capacity uint64
	Known               bool
}

// Disk is what is left of one file system. Device tells file systems apart; empty if unknown.
type Disk struct {
	Device        string
	Bytes, Inodes Left
}

// Reading is what is left of the node's resources.
type Reading struct {
	At time.Time
	// Memory is available memory: page cache that the kernel can reclaim counts as available.
	Memory Left
	// Allocatable is the memory left to pods under the limit of their top cgroup; its capacity is what is
	// allocatable. Unknown if pods have no such limit.
	Allocatable Left
	PID         Left
	// NodeFS has the agent's root directory, ImageFS the images, and ContainerFS the writable layers of
	// containers. LogFS has the logs of pods; no threshold is about it. Often all are one device.
	NodeFS, ImageFS, ContainerFS, LogFS Disk
}

// layers is where the writable layers of containers are. A runtime that does not say where has them beside its images
// (containerd).
func (r *Reading) layers() *Disk {
	if r.ContainerFS.Device != "" || r.ImageFS.Device == "" {
		return &r.ContainerFS
	}
	return &r.ImageFS
}

// SplitImageFS says whether images are on a file system of their own.
func (r *Reading) SplitImageFS() bool {
	return r.ImageFS.Device != "" && r.ImageFS.Device != r.NodeFS.Device
}

// Freed says whether the removal of images frees room on the file system of a signal.
func (r *Reading) Freed(s Signal) bool {
	switch s {
	case NodeFSAvailable, NodeFSInodesFree:
		return !r.SplitImageFS()
	case ContainerFSAvailable, ContainerFSInodesFree:
		return r.layers().Device == r.ImageFS.Device
	case ImageFSAvailable, ImageFSInodesFree:
		return true
	case MemoryAvailable, AllocatableMemoryAvailable, PIDAvailable:
	}
	return false
}

// Use is what one pod uses.
type Use struct {
	UID types.UID
	// Memory is what the kernel can't take back, in bytes: page cache that it can reclaim is not the pod's, as it counts
	// as available (Reading.Memory). Processes is their number.
	Memory, Processes uint64
	Containers        []ContainerUse
	Volumes           []VolumeUse
	// Other is what the pod's directory takes beside that, for example /etc/hosts of its containers.
	Other DiskUse
	// Age is how long before the measurement the oldest count of files in it was begun.
	Age time.Duration
}

// Partial says whether not all that the pod takes of disks could be counted.
func (u *Use) Partial() bool {
	return u.Other.Partial || slices.ContainsFunc(u.Volumes, func(v VolumeUse) bool { return v.Partial })
}

// DiskUse is what something takes on a disk. Partial: not all could be counted, so it is a lower bound.
type DiskUse struct {
	Bytes, Inodes uint64
	Partial       bool
}

// ContainerUse is what one container uses.
type ContainerUse struct {
	Name   string
	Memory uint64
	Logs   DiskUse
	// Layer is the writable layer.
	Layer DiskUse
}

// VolumeUse is what an ephemeral volume of the pod takes on the node's disk: an emptyDir that is not in
// memory, a projected volume and the like.
type VolumeUse struct {
	Name string
	DiskUse
}
