package eviction

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Signal is what a threshold watches (documentation, "Node-pressure Eviction").
type Signal string

// The signals of a Linux node.
const (
	MemoryAvailable            Signal = "memory.available"
	AllocatableMemoryAvailable Signal = "allocatableMemory.available"
	NodeFSAvailable            Signal = "nodefs.available"
	NodeFSInodesFree           Signal = "nodefs.inodesFree"
	ImageFSAvailable           Signal = "imagefs.available"
	ImageFSInodesFree          Signal = "imagefs.inodesFree"
	ContainerFSAvailable       Signal = "containerfs.available"
	ContainerFSInodesFree      Signal = "containerfs.inodesFree"
	PIDAvailable               Signal = "pid.available"
)

// Signals are all of them, the most urgent first.
func Signals() []Signal {
	return []Signal{
		MemoryAvailable, AllocatableMemoryAvailable, NodeFSAvailable, NodeFSInodesFree, ImageFSAvailable,
		ImageFSInodesFree, ContainerFSAvailable, ContainerFSInodesFree, PIDAvailable,
	}
}

// Resources that have no name in the API, as kubectl shows them in messages of evictions.
const (
	Inodes v1.ResourceName = "inodes"
	PIDs   v1.ResourceName = "pids"
)

// Resource is what runs short when a threshold of this signal is met.
func (s Signal) Resource() v1.ResourceName {
	switch s {
	case MemoryAvailable, AllocatableMemoryAvailable:
		return v1.ResourceMemory
	case NodeFSInodesFree, ImageFSInodesFree, ContainerFSInodesFree:
		return Inodes
	case PIDAvailable:
		return PIDs
	case NodeFSAvailable, ImageFSAvailable, ContainerFSAvailable:
		return v1.ResourceEphemeralStorage
	}
	return v1.ResourceEphemeralStorage
}

// Amount is a quantity, or a part of what there is.
type Amount struct {
	// Quantity is in the signal's unit: bytes, inodes or processes. Nil if the amount is a part.
	Quantity *resource.Quantity
	// Fraction is from 0 to 1; meant when Quantity is nil.
	Fraction float64
}

// Of gives the amount for a capacity, in the signal's unit.
func (a Amount) Of(capacity int64) int64 {
	if a.Quantity != nil {
		return a.Quantity.Value()
	}
	return int64(float64(capacity) * a.Fraction)
}

// Threshold is met while less than Value is left.
type Threshold struct {
	Signal Signal
	Value  Amount
	// Hard thresholds act at once, soft ones when met for Grace.
	Hard  bool
	Grace time.Duration
	// MinReclaim is how much more than Value must be left until a threshold that acts is no longer met;
	// zero for none.
	MinReclaim Amount
}

// Policy is how a node protects itself. The zero value evicts nothing.
type Policy struct {
	// Thresholds has at most one hard and one soft threshold of each signal.
	Thresholds []Threshold
	// Transition is how long a condition of the node stays after a threshold was last met
	// (evictionPressureTransitionPeriod).
	Transition time.Duration
	// MaxPodGrace bounds a pod's grace period when a soft threshold evicts it (evictionMaxPodGracePeriod).
	MaxPodGrace time.Duration
	// LocalStorage: pods that use more disk than their limits are evicted (localStorageCapacityIsolation).
	LocalStorage bool
	// NoNotices: the kernel is not asked to say when memory runs short.
	NoNotices bool
}

// Acts says whether there is anything to measure.
func (p *Policy) Acts() bool { return len(p.Thresholds) > 0 || p.LocalStorage }
