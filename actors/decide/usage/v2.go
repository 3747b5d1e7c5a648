package usage

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// FilesV2 are the files of a cgroup v2 that are read (Documentation/admin-guide/cgroup-v2.rst).
func FilesV2(depth Depth) []string {
	files := []string{"cpu.stat", "memory.current", "memory.stat", "memory.swap.current", "memory.swap.max"}
	switch depth {
	case Basic:
		return files
	case Short:
		return append(files, "cpu.pressure", "memory.max", "memory.pressure")
	case All:
	}
	return []string{
		"cpu.stat", "cpu.max", "cpu.weight", "cpu.pressure",
		"memory.current", "memory.stat", "memory.peak", "memory.max", "memory.low", "memory.events", "memory.pressure",
		"memory.swap.current", "memory.swap.max", "io.stat", "io.pressure", "pids.current", "pids.max", "cgroup.procs",
	}
}

// BoundFilesV2 are those that say how much of a memory limit is left, the limit first.
func BoundFilesV2() []string {
	return []string{"memory.max", "memory.high", "memory.current", "memory.stat"}
}

// V2 is the usage of a cgroup v2 with these files.
func V2(f Files, at time.Time) Cgroup {
	c := Cgroup{
		At:          at,
		CPUPressure: f.pressure("cpu.pressure"), MemoryPressure: f.pressure("memory.pressure"),
		IOPressure: f.pressure("io.pressure"),
	}
	if s := f.keyed("cpu.stat"); s != nil {
		micro := func(name string) time.Duration { return time.Duration(s[name]) * time.Microsecond }
		c.CPU = &CPU{
			Usage: micro("usage_usec"), User: micro("user_usec"), System: micro("system_usec"),
			Periods: s["nr_periods"], Throttled: s["nr_throttled"], ThrottledTime: micro("throttled_usec"),
		}
	}
	if s := f.keyed("memory.stat"); s != nil {
		events := f.keyed("memory.events")
		used, ok := f.number("memory.current")
		if !ok { // the root of the hierarchy has no such file
			used = s["anon"] + s["file"]
		}
		peak, _ := f.number("memory.peak")
		c.Memory = &Memory{
			Usage: used, WorkingSet: less(used, s["inactive_file"]), RSS: s["anon"], Cache: s["file"], Mapped: s["file_mapped"],
			Reclaimable: min(used, s["inactive_file"]+s["active_file"]+s["slab_reclaimable"]),
			Shared:      s["shmem"],
			Kernel:      cmp.Or(s["kernel"], s["kernel_stack"]+s["slab"]), MaxUsage: peak,
			Faults: s["pgfault"], MajorFaults: s["pgmajfault"], Failures: events["max"], OOMs: events["oom_kill"],
			OwnFaults: s["pgfault"], OwnMajorFaults: s["pgmajfault"], Throttles: events["high"],
			Dirty: s["file_dirty"], Writeback: s["file_writeback"], Scanned: s["pgscan"], Reclaimed: s["pgsteal"],
			RefaultedFile: s["workingset_refault_file"], RefaultedAnon: s["workingset_refault_anon"],
		}
		c.Swap = &Swap{Limit: NoLimit}
	}
	if n, ok := f.number("memory.swap.current"); ok {
		c.Swap = &Swap{Usage: n, Limit: NoLimit}
		if limit, ok := f.number("memory.swap.max"); ok {
			c.Swap.Limit = limit
		}
	}
	if n, ok := f.number("pids.current"); ok {
		limit, known := f.number("pids.max")
		if !known {
			limit = NoLimit
		}
		c.PIDs = &PIDs{Processes: f.lines("cgroup.procs"), Threads: n, Limit: limit}
	}
	c.IO = ioV2(f["io.stat"])
	c.Limits = limitsV2(f)
	return c
}

func limitsV2(f Files) (l Limits) {
	if quota, period, ok := strings.Cut(strings.TrimSpace(f["cpu.max"]), " "); ok {
		l.CPUPeriod, _ = parse(period)
		if n, _ := parse(quota); n != NoLimit {
			l.CPUQuota = n
		}
	}
	if w, ok := f.number("cpu.weight"); ok {
		l.CPUShares = sharesOf(w)
	}
	l.Memory, l.MemoryHigh, l.MemoryLow = limited(f, "memory.max"), limited(f, "memory.high"), limited(f, "memory.low")
	if swap := limited(f, "memory.swap.max"); l.Memory > 0 && swap > 0 {
		l.MemoryAndSwap = l.Memory + swap
	}
	return l
}

func limited(f Files, name string) uint64 {
	n, _ := f.number(name)
	if n == NoLimit {
		return 0
	}
	return n
}

// sharesOf converts the weight of cgroup v2 (1 to 10000) to the shares of cgroup v1 (2 to 262144)
// that dashboards know. It inverts the formula of the runtimes (KEP-2254).
func sharesOf(weight uint64) uint64 {
	if weight == 0 || weight == NoLimit {
		return 0
	}
	return 2 + (weight-1)*262142/9999
}

// ioV2 reads lines such as
//
//	8:16 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0
func ioV2(text string) (out []Device) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		d, ok := device(fields)
		if !ok {
			continue
		}
		for _, field := range fields[1:] {
			key, value, _ := strings.Cut(field, "=")
			n, _ := parse(value)
			switch key {
			case "rbytes":
				d.BytesRead = n
			case "wbytes":
				d.BytesWritten = n
			case "rios":
				d.Reads = n
			case "wios":
				d.Writes = n
			case "dbytes":
				d.BytesDiscarded = n
			case "dios":
				d.Discards = n
			}
		}
		out = append(out, d)
	}
	inOrder(out)
	return out
}

// device is the device at the beginning of a line.
func device(fields []string) (d Device, ok bool) {
	if len(fields) < 2 {
		return d, false
	}
	major, minor, ok := strings.Cut(fields[0], ":")
	if !ok {
		return d, false
	}
	var known bool
	d.Major, ok = parse(major)
	d.Minor, known = parse(minor)
	return d, ok && known
}

func inOrder(all []Device) {
	slices.SortFunc(all, func(a, b Device) int {
		return cmp.Or(cmp.Compare(a.Major, b.Major), cmp.Compare(a.Minor, b.Minor))
	})
}
