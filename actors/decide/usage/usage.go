// Package usage is what pods use of their node: values read of the kernel's
// files and of the runtime, what follows from them, and the shape in which the
// API shows them (k8s.io/kubelet/pkg/apis/stats/v1alpha1). It reads nothing
// itself: who asks reads the files that are named here, at the moment of asking.
package usage

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Cgroup is what one cgroup uses, since it was made or now. Counters only grow.
// What is not known is nil.
type Cgroup struct {
	// At is when it was read.
	At     time.Time
	CPU    *CPU
	Memory *Memory
	Swap   *Swap
	PIDs   *PIDs
	// IO is by device, in order of major and minor number.
	IO []Device
	// CPUPressure and its kin are of cgroup v2, if the kernel counts them (PSI).
	CPUPressure, MemoryPressure, IOPressure *Pressure
	Limits                                  Limits
}

// CPU is time on processors.
type CPU struct {
	// Rate is how much of a core it has used lately, in nanocores; nil if it was
	// read only once.
	Rate                *uint64
	Usage, User, System time.Duration
	// Periods counts those of the quota, Throttled those in which it ran out, and
	// ThrottledTime for how long it was waited for more.
	Periods, Throttled uint64
	ThrottledTime      time.Duration
}

// Memory is in bytes, but for what is counted.
type Memory struct {
	// Usage is all, with the page cache; WorkingSet what of it can't easily be given
	// back: without the inactive part of the cache.
	Usage, WorkingSet uint64
	// RSS is what is anonymous, Cache the page cache, Mapped what of it processes map,
	// Kernel the kernel's own.
	RSS, Cache, Mapped, Kernel uint64
	// MaxUsage is the most there ever was, 0 where the kernel does not say.
	MaxUsage uint64
	// Faults and MajorFaults count pages that had to be fetched, Failures how often
	// the limit was hit, OOMs how often a process was killed for that.
	Faults, MajorFaults, Failures, OOMs uint64
}

// Swap is in bytes. Limit is NoLimit if there is none.
type Swap struct{ Usage, Limit uint64 }

// PIDs are the processes and threads. Limit is NoLimit if there is none.
type PIDs struct {
	Processes      uint64
	Threads, Limit uint64
}

// NoLimit is what there is no limit of.
const NoLimit = ^uint64(0)

// Device is what was read of and written to a block device.
type Device struct {
	Major, Minor             uint64
	Reads, Writes            uint64
	BytesRead, BytesWritten  uint64
	Discards, BytesDiscarded uint64
}

// Limits are those of a cgroup. 0 is none.
type Limits struct {
	CPUShares           uint64
	CPUQuota, CPUPeriod uint64 // microseconds
	// in bytes
	Memory, MemoryLow, MemoryAndSwap uint64
}

// Pressure is for how long processes waited for something (PSI).
type Pressure struct{ Some, Full PressureOf }

// PressureOf is a part of it: the share of the last 10, 60 and 300 s in percent,
// and the time in all.
type PressureOf struct {
	Avg10, Avg60, Avg300 float64
	Total                time.Duration
}

// Interface is what went through a network interface.
type Interface struct {
	Name                                    string
	RxBytes, RxPackets, RxErrors, RxDropped uint64
	TxBytes, TxPackets, TxErrors, TxDropped uint64
}

// Disk is room on a file system, in bytes and inodes. What is not known is nil.
type Disk struct {
	At                             time.Time
	Capacity, Available, Used      *uint64
	Inodes, InodesFree, InodesUsed *uint64
}

// Pod is what a pod uses.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	Started         time.Time
	// ID is the path of its cgroup in the hierarchy, empty if it has none of its own.
	ID     string
	Cgroup Cgroup
	// Network are its interfaces, but for the loopback; nil for a pod in the node's
	// network, and where it could not be read.
	Network    []Interface
	NetworkAt  time.Time
	Containers []Container
	Volumes    []Volume
	// Sandbox is the container that holds the pod's namespaces, of which only the two
	// IDs are known; none where the runtime has none.
	Sandbox Container
}

// Container is what a running container uses.
type Container struct {
	Name string
	// RuntimeID is the runtime's, ID the path of its cgroup.
	RuntimeID, ID string
	Image         string
	Started       time.Time
	Cgroup        Cgroup
	// Rootfs is its writable layer, Logs are its log files.
	Rootfs, Logs *Disk
}

// Volume is a volume of a pod.
type Volume struct {
	Name string
	// Claim is the PersistentVolumeClaim (namespace/name) that it is of, if any.
	Namespace, Claim string
	// Local: what is in it is on the node's own file system.
	Local bool
	Disk  Disk
}

// Node is what a node uses.
type Node struct {
	Name    string
	Booted  time.Time
	Cgroup  Cgroup
	Network []Interface
	// Parts are its cgroups that have names: pods, kubelet, runtime.
	Parts []Container
	// Root is the file system that pods' directories are on, Images that of images
	// and Layers that of writable layers.
	Root, Images, Layers *Disk
	MaxPIDs, PIDs        uint64
	// Memory is how much it has, SwapTotal of swap.
	Memory, SwapTotal uint64
}
