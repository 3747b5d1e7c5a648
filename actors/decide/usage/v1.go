package usage

import (
	"strings"
	"time"
)

// FilesV1 are the files of a cgroup v1 that are read. Each begins with its hierarchy
// (Documentation/admin-guide/cgroup-v1).
func FilesV1(depth Depth) []string {
	files := []string{
		"cpuacct/cpuacct.usage", "memory/memory.usage_in_bytes", "memory/memory.stat",
		"memory/memory.memsw.usage_in_bytes", "memory/memory.memsw.limit_in_bytes", "memory/memory.limit_in_bytes",
	}
	if depth != All { // the limit is needed to tell swap from memory, and there are no pressures
		return files
	}
	return append(files,
		"cpuacct/cpuacct.stat", "cpu/cpu.stat", "cpu/cpu.shares", "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us",
		"memory/memory.max_usage_in_bytes", "memory/memory.failcnt", "memory/memory.soft_limit_in_bytes",
		"memory/memory.kmem.usage_in_bytes", "memory/memory.oom_control",
		"blkio/blkio.throttle.io_service_bytes_recursive", "blkio/blkio.throttle.io_serviced_recursive",
		"pids/pids.current", "pids/pids.max", "pids/cgroup.procs", "cpu/cgroup.procs",
	)
}

// BoundFilesV1 are those that say how much of a memory limit is left, the limit first.
func BoundFilesV1() []string {
	return []string{"memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"}
}

// tick is the unit of cpuacct.stat: USER_HZ is 100 on all Linux platforms.
const tick = 10 * time.Millisecond

// noLimitV1 is the value from which a memory limit means none: the kernel writes the highest whole
// number of pages.
const noLimitV1 = uint64(1) << 62

// V1 is the usage of a cgroup v1 with these files.
func V1(f Files, at time.Time) Cgroup {
	c := Cgroup{At: at}
	if n, ok := f.number("cpuacct/cpuacct.usage"); ok {
		own, quota := f.keyed("cpuacct/cpuacct.stat"), f.keyed("cpu/cpu.stat")
		c.CPU = &CPU{
			Usage: time.Duration(n), User: time.Duration(own["user"]) * tick, System: time.Duration(own["system"]) * tick,
			Periods: quota["nr_periods"], Throttled: quota["nr_throttled"],
			ThrottledTime: time.Duration(quota["throttled_time"]),
		}
	}
	limit := bytesV1(f, "memory/memory.limit_in_bytes")
	used, known := f.number("memory/memory.usage_in_bytes")
	if s := f.keyed("memory/memory.stat"); s != nil && known {
		peak, _ := f.number("memory/memory.max_usage_in_bytes")
		failures, _ := f.number("memory/memory.failcnt")
		kernel, _ := f.number("memory/memory.kmem.usage_in_bytes")
		c.Memory = &Memory{
			Usage: used, WorkingSet: less(used, s["total_inactive_file"]),
			Reclaimable: min(used, s["total_inactive_file"]+s["total_active_file"]),
			Shared:      s["total_shmem"],
			RSS:         s["total_rss"], Cache: s["total_cache"], Mapped: s["total_mapped_file"], Kernel: kernel,
			MaxUsage: peak, Failures: failures, OOMs: f.keyed("memory/memory.oom_control")["oom_kill"],
			Faults: s["total_pgfault"], MajorFaults: s["total_pgmajfault"],
			OwnFaults: s["pgfault"], OwnMajorFaults: s["pgmajfault"],
		}
		c.Swap = &Swap{Limit: NoLimit}
	}
	// v1 counts swap together with memory.
	if both, ok := f.number("memory/memory.memsw.usage_in_bytes"); ok {
		c.Swap = &Swap{Usage: less(both, used), Limit: NoLimit}
		if most := bytesV1(f, "memory/memory.memsw.limit_in_bytes"); most > 0 && limit > 0 {
			c.Swap.Limit = less(most, limit)
			c.Limits.MemoryAndSwap = most
		}
	}
	if n, ok := f.number("pids/pids.current"); ok {
		most, _ := f.number("pids/pids.max")
		c.PIDs = &PIDs{Processes: max(f.lines("pids/cgroup.procs"), f.lines("cpu/cgroup.procs")), Threads: n, Limit: most}
	}
	c.IO = ioV1(f["blkio/blkio.throttle.io_service_bytes_recursive"], f["blkio/blkio.throttle.io_serviced_recursive"])
	c.Limits.Memory, c.Limits.MemoryLow = limit, bytesV1(f, "memory/memory.soft_limit_in_bytes")
	c.Limits.CPUShares, _ = f.number("cpu/cpu.shares")
	c.Limits.CPUPeriod, _ = f.number("cpu/cpu.cfs_period_us")
	c.Limits.CPUQuota = limited(f, "cpu/cpu.cfs_quota_us")
	return c
}

// bytesV1 reads a memory limit, 0 for none.
func bytesV1(f Files, name string) uint64 {
	n := limited(f, name)
	if n >= noLimitV1 {
		return 0
	}
	return n
}

// ioV1 reads two files of lines such as
//
//	8:16 Read 1459200
func ioV1(bytes, count string) []Device {
	by := map[[2]uint64]*Device{}
	each := func(text string, take func(d *Device, what string, n uint64)) {
		for line := range strings.Lines(text) {
			fields := strings.Fields(line)
			key, ok := device(fields)
			if !ok || len(fields) < 3 {
				continue // the last line is the sum
			}
			n, _ := parse(fields[2])
			at := [2]uint64{key.Major, key.Minor}
			if by[at] == nil {
				by[at] = &key
			}
			take(by[at], fields[1], n)
		}
	}
	each(bytes, func(d *Device, what string, n uint64) {
		switch what {
		case "Read":
			d.BytesRead = n
		case "Write":
			d.BytesWritten = n
		case "Discard":
			d.BytesDiscarded = n
		}
	})
	each(count, func(d *Device, what string, n uint64) {
		switch what {
		case "Read":
			d.Reads = n
		case "Write":
			d.Writes = n
		case "Discard":
			d.Discards = n
		}
	})
	out := make([]Device, 0, len(by))
	for _, d := range by { // order-free: sorted below
		out = append(out, *d)
	}
	inOrder(out)
	return out
}
