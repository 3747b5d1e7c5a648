// Package usage is the resource usage of pods on their node: values from the kernel's files and
// from the runtime, values derived from them, and their form in the API
// (k8s.io/kubelet/pkg/apis/stats/v1alpha1). It reads nothing itself: the caller reads the files
// named here on demand.
package usage

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Depth is how much is read of cgroups.
type Depth uint8

const (
	// Basic is CPU, memory and swap, for metrics-server.
	Basic Depth = iota
	// Short is these with the limit of memory, and how long processes waited for CPU and memory.
	Short
	// All is all that is known.
	All
)

// Cgroup is the usage of one cgroup, since it was made or now. Counters only grow. Unknown values
// are nil.
type Cgroup struct {
	// At is when it was read.
	At     time.Time
	CPU    *CPU
	Memory *Memory
	Swap   *Swap
	PIDs   *PIDs
	// IO is by device, in order of major and minor number.
	IO []Device
	// The pressures exist on cgroup v2, if the kernel counts them (PSI).
	CPUPressure, MemoryPressure, IOPressure *Pressure
	Limits                                  Limits
}

// CPU is CPU time.
type CPU struct {
	// Rate is the recent use in nanocores; nil if it was read only once.
	Rate                *uint64
	Usage, User, System time.Duration
	// Periods counts the periods of the quota, Throttled those in which it ran out. ThrottledTime is
	// the time spent waiting for the next.
	Periods, Throttled uint64
	ThrottledTime      time.Duration
}

// Memory is in bytes, except for counters.
type Memory struct {
	// Usage is everything, including the page cache. WorkingSet is without the inactive part of the
	// cache, which can easily be reclaimed.
	Usage, WorkingSet uint64
	// Reclaimable is the part of Usage that the kernel can free when memory runs short: file pages, used
	// recently or not, and on cgroup v2 the kernel's own caches.
	Reclaimable uint64
	// Shared are files in memory (tmpfs) and what processes share; they are in Cache, and can't be freed.
	Shared uint64
	// RSS is anonymous memory, Cache the page cache, Mapped the part of it that processes map, Kernel
	// the kernel's own memory.
	RSS, Cache, Mapped, Kernel uint64
	// MaxUsage is the maximum so far, 0 if the kernel does not report it.
	MaxUsage uint64
	// Faults and MajorFaults count page faults, Failures how often the limit was hit, OOMs how often a
	// process was killed for that. Throttles is how often more than memory.high was used (v2).
	Faults, MajorFaults, Failures, OOMs, Throttles uint64
	// OwnFaults and OwnMajorFaults are those without the cgroups below, if the kernel tells them apart (v1).
	OwnFaults, OwnMajorFaults uint64
	// Dirty is the part of Cache that is not on the disk yet, Writeback what is being written. Scanned and Reclaimed
	// count pages that the kernel looked at and took when memory ran short, RefaultedFile and RefaultedAnon those that
	// were needed again soon after. All are 0 on cgroup v1.
	Dirty, Writeback, Scanned, Reclaimed, RefaultedFile, RefaultedAnon uint64
}

// Held is what the kernel can't free when memory runs short, in bytes: what the end of the processes would free.
func (m *Memory) Held() uint64 {
	if m.Usage == 0 { // a runtime may only report the working set
		return m.WorkingSet
	}
	return min(m.WorkingSet, m.Usage-min(m.Usage, m.Reclaimable))
}

// Swap is in bytes. Limit is NoLimit if there is none. Usage is 0 if the kernel does not count swap by cgroup: cAdvisor
// says so too, and whoever adds memory and swap needs a number.
type Swap struct{ Usage, Limit uint64 }

// PIDs are the processes and threads. Limit is NoLimit if there is none.
type PIDs struct {
	Processes      uint64
	Threads, Limit uint64
}

// NoLimit stands for no limit.
const NoLimit = ^uint64(0)

// Device is the I/O of a block device.
type Device struct {
	Major, Minor uint64
	// Name is its file, such as /dev/vda; empty if it is not known.
	Name                     string
	Reads, Writes            uint64
	BytesRead, BytesWritten  uint64
	Discards, BytesDiscarded uint64
}

// Limits are the limits of a cgroup; 0 for none.
type Limits struct {
	CPUShares           uint64
	CPUQuota, CPUPeriod uint64 // microseconds
	// in bytes; above MemoryHigh processes are slowed down
	Memory, MemoryHigh, MemoryLow, MemoryAndSwap uint64
}

// Pressure is the time that processes waited for a resource (PSI).
type Pressure struct{ Some, Full PressureOf }

// PressureOf is a part of it: the share of the last 10, 60 and 300 s in percent, and the total
// time.
type PressureOf struct {
	Avg10, Avg60, Avg300 float64
	Total                time.Duration
}

// Interface is the traffic of a network interface.
type Interface struct {
	Name                                    string
	RxBytes, RxPackets, RxErrors, RxDropped uint64
	TxBytes, TxPackets, TxErrors, TxDropped uint64
}

// Disk is the space of a file system, in bytes and inodes. Unknown values are nil.
type Disk struct {
	At                             time.Time
	Capacity, Available, Used      *uint64
	Inodes, InodesFree, InodesUsed *uint64
	// Device is the block device that it is on, such as /dev/vda1; empty if it has none or it is not known.
	Device string
	// IO is what was done on Device; nil if it was not read.
	IO *DeviceIO
}

// DeviceIO is what has been done on a block device since the machine began.
type DeviceIO struct {
	// ReadsMerged and WritesMerged are requests that became part of another one. Sectors are of 512 bytes.
	ReadsMerged, SectorsRead, WritesMerged, SectorsWritten uint64
	// Reading and Writing are the sums of the times of all requests. Busy is how long there was any, Weighted the
	// sum of the times of those that there were.
	Reading, Writing, Busy, Weighted time.Duration
	// Current is how many requests there are now.
	Current uint64
}

// Pod is the usage of a pod.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	Started         time.Time
	// ID is the path of its cgroup in the hierarchy, empty if it has no own one.
	ID     string
	Cgroup Cgroup
	// Network are its interfaces without the loopback; nil for a pod in the node's network, or if they
	// could not be read.
	Network    []Interface
	NetworkAt  time.Time
	Containers []Container
	Volumes    []Volume
	// Sandbox is the container that holds the pod's namespaces, with only its two IDs; empty if the
	// runtime has none.
	Sandbox Container
}

// Container is the usage of a running container.
type Container struct {
	Name string
	// RuntimeID is the runtime's ID, ID the path of its cgroup.
	RuntimeID, ID string
	Image         string
	Started       time.Time
	Cgroup        Cgroup
	// Rootfs is its writable layer, Logs are its log files.
	Rootfs, Logs *Disk
	// Open is nil if it was not read.
	Open *Open
}

// Open is what the processes of a container have open.
type Open struct {
	// Descriptors are all their file descriptors, Sockets those that are sockets: a lower bound if there are very many.
	Descriptors, Sockets uint64
	// Limit is the soft limit of descriptors of one process, -1 for none; nil if it is not known.
	Limit *int64
}

// Volume is a volume of a pod.
type Volume struct {
	Name string
	// Claim is its PersistentVolumeClaim (namespace/name), if any.
	Namespace, Claim string
	// Plugin is a kubelet's name of what kind it is, such as kubernetes.io/nfs; see CSIPlugin.
	Plugin string
	// Local: its data is on the node's own file system.
	Local bool
	// Partial: not all could be counted, so what it uses is a lower bound.
	Partial bool
	Disk    Disk
	// Abnormal is what its driver says of its health (KEP-1432); nil: it says nothing.
	Abnormal *bool
}

// CSIPlugin is the Plugin of volumes of a CSI driver.
func CSIPlugin(driver string) string { return "kubernetes.io/csi:" + driver }

// Node is the usage of a node.
type Node struct {
	Name    string
	Booted  time.Time
	Cgroup  Cgroup
	Network []Interface
	// Parts are its named cgroups: pods, kubelet, runtime.
	Parts []Container
	// Root is the file system of the pods' directories, Images that of images and Layers that of
	// writable layers.
	Root, Images, Layers *Disk
	MaxPIDs, PIDs        uint64
	// Memory is the node's memory, SwapTotal its swap. HugePages of the memory are not in Cgroup.
	Memory, SwapTotal, HugePages uint64
}
