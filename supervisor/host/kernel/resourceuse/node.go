package resourceuse

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/kernelfile"
)

// Node reads what all of this machine uses. Parts are cgroups with names.
func (m *Meter) Node(name string, parts map[string]string, depth usage.Depth) usage.Node {
	n := usage.Node{Name: name, Booted: m.Booted(), Cgroup: m.Cgroup("/", depth)}
	info := m.memory()
	n.Memory, n.SwapTotal = info.of("MemTotal"), info.of("SwapTotal")
	// The limits of the machine's own cgroup, as cAdvisor has them: swap alone, without memory.
	n.Cgroup.Limits.Memory, n.Cgroup.Limits.MemoryAndSwap = n.Memory, n.SwapTotal
	if n.Cgroup.CPU == nil { // a container's own view of cgroups
		n.Cgroup.CPU = m.processors()
	}
	if n.HugePages = info.of("Hugetlb"); n.Cgroup.Memory == nil {
		n.HugePages, n.Cgroup.Memory = 0, wholeMemory(info)
	}
	n.Cgroup.Swap = &usage.Swap{Usage: info.of("SwapTotal") - min(info.of("SwapFree"), info.of("SwapTotal")),
		Limit: info.of("SwapTotal")}
	if depth == usage.Basic {
		return n
	}
	m.pressure(&n.Cgroup.CPUPressure, "cpu")
	m.pressure(&n.Cgroup.MemoryPressure, "memory")
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		c := usage.Container{Name: part, ID: parts[part], Cgroup: m.Cgroup(parts[part], depth)}
		if c.Cgroup.CPU == nil && c.Cgroup.Memory == nil {
			continue // there is no such cgroup
		}
		c.Started = m.made(c.ID, n.Booted)
		n.Parts = append(n.Parts, c)
	}
	if depth != usage.All {
		return n
	}
	m.pressure(&n.Cgroup.IOPressure, "io")
	if text, err := os.ReadFile(filepath.Join(m.proc, "1/net/dev")); err == nil {
		n.Network = usage.Interfaces(string(text))
	}
	n.MaxPIDs = m.number("sys/kernel/pid_max")
	n.PIDs = m.threads()
	return n
}

// pressure reads how long processes of the machine waited, if that of the root cgroup is not known.
func (m *Meter) pressure(to **usage.Pressure, file string) {
	if text, err := os.ReadFile(filepath.Join(m.proc, "pressure", file)); err == nil && *to == nil {
		*to = usage.PressureIn(string(text))
	}
}

// made is when a cgroup was made. Its directory changes with each cgroup made in it; these files most often do not
// (cAdvisor's GetSpec).
func (m *Meter) made(path string, booted time.Time) (at time.Time) {
	for _, name := range [...]string{"", "cgroup.clone_children", "cgroup.events"} {
		info, err := os.Stat(filepath.Join(m.Dir(path), name))
		if err == nil && (at.IsZero() || info.ModTime().Before(at)) {
			at = info.ModTime()
		}
	}
	if !at.IsZero() && at.Before(booted) {
		return booted
	}
	return at
}

// wholeMemory is what a machine uses, where the root cgroup can't be seen. It is more than a root cgroup has: the
// kernel's own memory and huge pages are in it.
func wholeMemory(info memory) *usage.Memory {
	used := info.of("MemTotal") - min(info.of("MemFree"), info.of("MemTotal"))
	return &usage.Memory{
		Usage: used, WorkingSet: used - min(info.of("Inactive(file)"), used),
		RSS: info.of("AnonPages"), Cache: info.of("Cached"), Mapped: info.of("Mapped"),
	}
}

// memory is /proc/meminfo.
func (m *Meter) memory() memory {
	info, _ := kernelfile.ReadMemory(filepath.Join(m.proc, "meminfo"), "") //nolint:errcheck // then nothing is known
	return memory{info}
}

// memory is what the kernel says of the memory of the machine.
type memory struct{ kernelfile.Memory }

// of is a size in bytes, 0 if it is not known.
func (m memory) of(name string) uint64 {
	n, _ := m.Bytes(name) //nolint:errcheck // as said
	return n
}

// processors reads the first line of /proc/stat (proc(5)).
func (m *Meter) processors() *usage.CPU {
	text, err := os.ReadFile(filepath.Join(m.proc, "stat"))
	if err != nil {
		return nil
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	var c usage.CPU
	const tick = 10 * time.Millisecond
	for i, f := range fields {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil || i == 4 || i == 5 || i > 8 { // idle, and waiting for a disk
			continue
		}
		c.Usage += time.Duration(n) * tick
		switch i {
		case 1, 2:
			c.User += time.Duration(n) * tick
		case 3:
			c.System += time.Duration(n) * tick
		}
	}
	return &c
}

// Booted is when the machine began; zero if the kernel does not say it.
func (m *Meter) Booted() time.Time {
	at, _ := kernelfile.Field(filepath.Join(m.proc, "stat"), "btime ")
	n, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(n, 0)
}

// number is 0 for what can't be read.
func (m *Meter) number(file string) uint64 {
	n, _ := kernelfile.Number(filepath.Join(m.proc, file)) //nolint:errcheck // as said
	return uint64(max(n, 0))
}

// number is 0 for what is none.
func number(text string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	return n
}

// threads is how many there are: /proc/loadavg has running/all.
func (m *Meter) threads() uint64 {
	text, err := os.ReadFile(filepath.Join(m.proc, "loadavg"))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 4 {
		return 0
	}
	_, all, _ := strings.Cut(fields[3], "/")
	n, _ := strconv.ParseUint(all, 10, 64)
	return n
}

// Disk is the room on the file system that path is on; nil if that can't be told.
// It must not be a volume of a pod: what is asked there may hang.
func Disk(path string) *usage.Disk {
	var s unix.Statfs_t
	if unix.Statfs(path, &s) != nil {
		return nil
	}
	block := uint64(s.Bsize)
	capacity, available, used := s.Blocks*block, s.Bavail*block, (s.Blocks-s.Bfree)*block
	inodes, free := s.Files, s.Ffree
	taken := inodes - min(free, inodes)
	name := ""
	if st := (unix.Stat_t{}); unix.Stat(path, &st) == nil {
		name = device(sysfs, uint64(unix.Major(st.Dev)), uint64(unix.Minor(st.Dev)))
	}
	return &usage.Disk{
		Device: name, At: time.Now(), Capacity: &capacity, Available: &available, Used: &used,
		Inodes: &inodes, InodesFree: &free, InodesUsed: &taken,
	}
}

// Sector is the unit that files' blocks are counted in, whatever the file system
// has (stat(2)).
const Sector = 512

// OnDisk is how many bytes of a disk a file takes.
func OnDisk(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Blocks) * Sector
	}
	return uint64(info.Size())
}
