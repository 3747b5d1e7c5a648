package eviction

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Memory is what is remembered from one reading to the next. The zero value is the start: it may be lost, and
// then conditions come back with the next reading, but the transition period and grace periods begin anew.
type Memory struct {
	// since is when a threshold was first met, for those that are met now.
	since map[mark]time.Time
	// acting are those that were met for their grace: min reclaim keeps them met.
	acting map[mark]bool
	// last is when a threshold of each condition was last met; zero if never.
	last [3]time.Time
}

// mark tells thresholds apart.
type mark struct {
	signal Signal
	hard   bool
}

// Conditions of a node, as indexes.
const (
	memory = iota
	disk
	pid
)

// Conditions are the pressures that a node shows.
type Conditions struct{ Memory, Disk, PID bool }

// Shortage is a threshold to act on.
type Shortage struct {
	Threshold
	Left Left
	// Quantity is the threshold's value for what there is, in the signal's unit.
	Quantity uint64
}

// Immediate says that pods get no grace period: the threshold is hard, or soft without a grace period.
func (s *Shortage) Immediate() bool { return s.Hard || s.Grace <= 0 }

// Kind is what runs short: memory, disk or processes. Bytes and inodes are one: both are on disk.
func (s *Shortage) Kind() v1.ResourceName { return kind(s.Signal.Resource()) }

// Assess says what a reading means: the conditions of the node, and the shortages to act on, the most urgent
// first. Memory comes before all else, and hard thresholds before soft ones.
func (p *Policy) Assess(m Memory, r *Reading, now time.Time) (Memory, Conditions, []Shortage) {
	next := Memory{since: map[mark]time.Time{}, acting: map[mark]bool{}, last: m.last}
	var act []Shortage
	for _, t := range p.Thresholds {
		k := mark{t.Signal, t.Hard}
		left, counts := r.of(t.Signal)
		if !counts || !left.Known {
			continue
		}
		quantity, enough := levels(t, left)
		if m.acting[k] {
			if left.Available >= enough {
				continue
			}
		} else if left.Available >= quantity {
			continue
		}
		since, was := m.since[k]
		if !was || since.After(now) {
			since = now
		}
		next.since[k] = since
		next.last[condition(t.Signal)] = now
		if t.Hard || now.Sub(since) >= t.Grace {
			next.acting[k] = true
			act = append(act, Shortage{t, left, quantity})
		}
	}
	var shown [3]bool
	for i, last := range next.last {
		if last.After(now) { // the clock was set back
			next.last[i], last = now, now
		}
		shown[i] = !last.IsZero() && (last.Equal(now) || now.Sub(last) < p.Transition)
	}
	order := Signals()
	slices.SortStableFunc(act, func(a, b Shortage) int {
		return cmp.Or(first(a.Signal.Resource() == v1.ResourceMemory, b.Signal.Resource() == v1.ResourceMemory),
			first(a.Immediate(), b.Immediate()),
			cmp.Compare(slices.Index(order, a.Signal), slices.Index(order, b.Signal)))
	})
	return next, Conditions{shown[memory], shown[disk], shown[pid]}, act
}

// Notice is the amount of available memory of which the kernel has to tell when there is less: the highest
// threshold that is not met. False: there is none, or it is met already.
func (p *Policy) Notice(r *Reading) (bytes uint64, is bool) {
	left := r.Memory
	if r.Allocatable.Known && r.Allocatable.Available < left.Available {
		left.Available = r.Allocatable.Available // the kernel is asked about both
	}
	for _, t := range p.Thresholds {
		var capacity uint64
		switch {
		case t.Signal == MemoryAvailable && r.Memory.Known:
			capacity = r.Memory.Capacity
		case t.Signal == AllocatableMemoryAvailable && r.Memory.Known && r.Allocatable.Known:
			capacity = r.Allocatable.Capacity
		default:
			continue
		}
		quantity, _ := levels(t, Left{Capacity: capacity})
		if quantity > 0 && quantity <= left.Available && (!is || quantity > bytes) {
			bytes, is = quantity, true
		}
	}
	return bytes, is
}

// Notices says whether the kernel's notices about memory are of use.
func (p *Policy) Notices() bool {
	return !p.NoNotices && slices.ContainsFunc(p.Thresholds, func(t Threshold) bool {
		return t.Signal.Resource() == v1.ResourceMemory
	})
}

// levels are what must be left so that a threshold is not met, and so that one that acts is no longer met.
func levels(t Threshold, left Left) (quantity, enough uint64) {
	capacity := int64(left.Capacity)
	value := max(t.Value.Of(capacity), 0)
	return uint64(value), uint64(value + max(t.MinReclaim.Of(capacity), 0))
}

// of is what is left for a signal, and whether the signal counts. Thresholds for the file system of containers
// count only if it is neither the node's nor that of images, which have thresholds of their own.
func (r *Reading) of(s Signal) (Left, bool) {
	own := r.ContainerFS.Device != "" && r.ContainerFS.Device != r.NodeFS.Device &&
		r.ContainerFS.Device != r.ImageFS.Device
	switch s {
	case MemoryAvailable:
		return r.Memory, true
	case AllocatableMemoryAvailable:
		return r.Allocatable, true
	case PIDAvailable:
		return r.PID, true
	case NodeFSAvailable:
		return r.NodeFS.Bytes, true
	case NodeFSInodesFree:
		return r.NodeFS.Inodes, true
	case ImageFSAvailable:
		return r.ImageFS.Bytes, true
	case ImageFSInodesFree:
		return r.ImageFS.Inodes, true
	case ContainerFSAvailable:
		return r.ContainerFS.Bytes, own
	case ContainerFSInodesFree:
		return r.ContainerFS.Inodes, own
	}
	return Left{}, false
}

func condition(s Signal) int {
	switch s.Resource() {
	case v1.ResourceMemory:
		return memory
	case PIDs:
		return pid
	default:
		return disk
	}
}

// first orders true before false.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// The longest and shortest time between two readings.
const (
	Longest  = 10 * time.Second
	Shortest = 500 * time.Millisecond
)

// diskRate is how fast a hog is taken to write, in bytes per second.
const diskRate = 1 << 30

// Wait is how long to wait for the next reading. It falls as a threshold nears: a hog is taken to fill all
// memory or all process IDs within 10 s, a small disk at 1 GiB/s and a large one within 100 s, or else to go on
// as it did from the last reading, before, to this one.
func (p *Policy) Wait(before, r *Reading) time.Duration {
	wait := Longest
	for _, t := range p.Thresholds {
		left, counts := r.of(t.Signal)
		if !counts || !left.Known || left.Capacity == 0 {
			continue
		}
		quantity, _ := levels(t, left)
		if left.Available <= quantity {
			return min(wait, time.Second)
		}
		distance, fill := float64(left.Available-quantity), 10*time.Second
		if condition(t.Signal) == disk {
			fill = 100 * time.Second
		}
		full := time.Duration(distance / float64(left.Capacity) * float64(fill))
		if t.Signal.Resource() == v1.ResourceEphemeralStorage {
			full = min(full, time.Duration(distance/diskRate*float64(time.Second)))
		}
		wait = min(wait, max(time.Second, full))
		was, _ := before.of(t.Signal)
		if passed := r.At.Sub(before.At); was.Known && was.Available > left.Available && passed > 0 {
			eta := distance / float64(was.Available-left.Available) * float64(passed)
			if half := time.Duration(min(eta/2, float64(Longest))); half < wait {
				wait = max(half, Shortest)
			}
		}
	}
	return wait
}
