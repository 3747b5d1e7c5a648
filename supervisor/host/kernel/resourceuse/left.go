package resourceuse

import (
	"path/filepath"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/kernelfile"
)

// MemoryLeft is what is left of the memory of the machine, and how much it has, in bytes. It is what the
// kernel itself expects to give to new programs without swapping (MemAvailable, proc(5)): page cache
// counts as available whether it was used recently or not, and so do the kernel's own caches. A working
// set would count the active page cache as used: then a node that only reads many files
// would evict pods (kubernetes/kubernetes#43916).
func (m *Meter) MemoryLeft() (available, capacity uint64, known bool) {
	info := m.memory()
	capacity, available = info.of("MemTotal"), info.of("MemAvailable")
	return min(available, capacity), capacity, info.Has("MemAvailable") && capacity > 0
}

// Bound is a cgroup whose memory is limited, in bytes.
type Bound struct {
	Path string
	// Limit is that of the cgroup, Available what is left of it: page cache counts as available as in
	// MemoryLeft. Usage is everything in it, Shared the part of it that is files in memory.
	Limit, Available, Usage, Shared uint64
}

// Bound reads the limit of the cgroup at path; false if it has none or can't be read.
func (m *Meter) Bound(path string) (Bound, bool) { return m.bound(path, hard) }

// hard is the limit of a cgroup, and soft what is smaller: its limit, or from where on it is slowed down.
func hard(l usage.Limits) uint64 { return l.Memory }
func soft(l usage.Limits) uint64 {
	if l.Memory == 0 || l.MemoryHigh == 0 {
		return max(l.Memory, l.MemoryHigh)
	}
	return min(l.Memory, l.MemoryHigh)
}

func (m *Meter) bound(path string, of func(usage.Limits) uint64) (Bound, bool) {
	files := usage.Files{}
	names := usage.BoundFilesV1()
	if m.v2 {
		names = usage.BoundFilesV2()
	}
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	for i, name := range names {
		text, ok := read(m.file(path, name), *buffer)
		if !ok && i == 0 {
			return Bound{}, false
		}
		if ok {
			files[name] = text
		}
	}
	c := usage.V1(files, time.Time{})
	if m.v2 {
		c = usage.V2(files, time.Time{})
	}
	limit := of(c.Limits)
	if limit == 0 || c.Memory == nil {
		return Bound{}, false
	}
	b := Bound{Path: path, Limit: limit, Usage: c.Memory.Usage, Shared: c.Memory.Shared}
	b.Available = b.Limit - min(b.Limit, c.Memory.Held())
	return b, true
}

// Bounds are the limits of the cgroup at path and of all above it, that of the highest first.
func (m *Meter) Bounds(path string) []Bound { return m.bounds(path, hard) }

// SoftBounds are Bounds, but that memory.high of cgroup v2 (MemoryHigh of a unit) is a limit too: above it the kernel
// slows processes down more and more, and takes memory from them that they need.
func (m *Meter) SoftBounds(path string) []Bound { return m.bounds(path, soft) }

func (m *Meter) bounds(path string, of func(usage.Limits) uint64) (out []Bound) {
	path = filepath.Clean("/" + path)
	if path != "/" {
		out = m.bounds(filepath.Dir(path), of)
	}
	if b, ok := m.bound(path, of); ok {
		out = append(out, b)
	}
	return out
}

// ProcessesLeft is how many processes and threads can still be started on the machine, and
// how many it can have.
func (m *Meter) ProcessesLeft() (available, capacity uint64, known bool) {
	capacity = m.number("sys/kernel/pid_max")
	if most := m.number("sys/kernel/threads-max"); most > 0 {
		capacity = min(capacity, most)
	}
	now := m.threads()
	return capacity - min(now, capacity), capacity, capacity > 0 && now > 0
}

// Processes is how many processes and threads are in the cgroup at path, 0 if there is no such cgroup.
func (m *Meter) Processes(path string) uint64 {
	name := "pids/pids.current"
	if m.v2 {
		name = "pids.current"
	}
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	text, _ := read(m.file(path, name), *buffer)
	return number(text)
}

// V2 reports whether this machine has cgroup v2.
func (m *Meter) V2() bool { return m.v2 }

// OOMKills is how many processes the kernel has killed since it booted because memory ran out; false on kernels before
// 4.13, which do not count them.
func (m *Meter) OOMKills() (uint64, bool) {
	n, counts := kernelfile.Field(filepath.Join(m.proc, "vmstat"), "oom_kill ")
	return number(n), counts
}
