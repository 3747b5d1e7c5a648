package usage

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

var at = time.Unix(1000, 0)

func TestV2(t *testing.T) {
	for name, tt := range map[string]struct {
		files Files
		want  Cgroup
	}{
		"nothing is known": {Files{}, Cgroup{}},
		"what metrics-server asks": {
			Files{
				"cpu.stat":       "usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\n",
				"memory.current": "5000\n", "memory.stat": "anon 1000\nfile 3000\ninactive_file 2000\nactive_file 500\nslab_reclaimable 100\n",
				"memory.swap.current": "10\n", "memory.swap.max": "max\n",
			},
			Cgroup{
				CPU:    &CPU{Usage: 1500 * time.Millisecond, User: time.Second, System: 500 * time.Millisecond},
				Memory: &Memory{Usage: 5000, WorkingSet: 3000, Reclaimable: 2600, RSS: 1000, Cache: 3000},
				Swap:   &Swap{Usage: 10, Limit: NoLimit},
			},
		},
		"limits": {
			Files{"cpu.max": "20000 100000\n", "cpu.weight": "39\n", "memory.max": "1048576\n", "memory.low": "0\n", "memory.swap.max": "1024\n"},
			Cgroup{Limits: Limits{CPUShares: 998, CPUQuota: 20000, CPUPeriod: 100000, Memory: 1 << 20, MemoryAndSwap: 1<<20 + 1024}},
		},
		"no limits": {
			Files{"cpu.max": "max 100000\n", "cpu.weight": "1\n", "memory.max": "max\n", "memory.swap.max": "max\n"},
			Cgroup{Limits: Limits{CPUShares: 2, CPUPeriod: 100000}},
		},
		"throttled, killed, faulty": {
			Files{
				"cpu.stat":       "usage_usec 1\nnr_periods 10\nnr_throttled 4\nthrottled_usec 2000\n",
				"memory.current": "1\n", "memory.peak": "9\n", "memory.stat": "pgfault 7\npgmajfault 2\nfile_mapped 4\nkernel 3\n" +
					"file_dirty 11\nfile_writeback 12\npgscan 13\npgsteal 14\nworkingset_refault_file 15\nworkingset_refault_anon 16\n",
				"memory.events": "low 0\nhigh 3\nmax 5\noom 2\noom_kill 1\noom_group_kill 0\n",
			},
			Cgroup{
				CPU: &CPU{Usage: time.Microsecond, Periods: 10, Throttled: 4, ThrottledTime: 2 * time.Millisecond},
				Memory: &Memory{Usage: 1, WorkingSet: 1, MaxUsage: 9, Faults: 7, MajorFaults: 2, OwnFaults: 7, OwnMajorFaults: 2, Mapped: 4, Kernel: 3, Failures: 5, OOMs: 1, Throttles: 3,
					Dirty: 11, Writeback: 12, Scanned: 13, Reclaimed: 14, RefaultedFile: 15, RefaultedAnon: 16},
				Swap: &Swap{Limit: NoLimit}, // the kernel does not count it
			},
		},
		"the root has no memory.current": {
			Files{"memory.stat": "anon 100\nfile 50\ninactive_file 20\nkernel_stack 1\nslab 2\n"},
			Cgroup{
				Memory: &Memory{Usage: 150, WorkingSet: 130, Reclaimable: 20, RSS: 100, Cache: 50, Kernel: 3},
				Swap:   &Swap{Limit: NoLimit},
			},
		},
		"processes": {
			Files{"pids.current": "12\n", "pids.max": "max\n", "cgroup.procs": "1\n22\n333\n"},
			Cgroup{PIDs: &PIDs{Processes: 3, Threads: 12, Limit: NoLimit}},
		},
		"devices": {
			Files{"io.stat": "8:16 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=3 dios=4\n8:0 rbytes=1 wbytes=2\n253:0 \n"},
			Cgroup{IO: []Device{
				{Major: 8, BytesRead: 1, BytesWritten: 2},
				{Major: 8, Minor: 16, BytesRead: 10, BytesWritten: 20, Reads: 1, Writes: 2, BytesDiscarded: 3, Discards: 4},
			}},
		},
		"pressure": {
			Files{"cpu.pressure": "some avg10=1.50 avg60=0.25 avg300=0.00 total=12\nfull avg10=0.00 avg60=0.00 avg300=0.10 total=3\n"},
			Cgroup{CPUPressure: &Pressure{
				Some: PressureOf{Avg10: 1.5, Avg60: .25, Total: 12 * time.Microsecond},
				Full: PressureOf{Avg300: .1, Total: 3 * time.Microsecond},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.want.At = at
			check.Deep(t, V2(tt.files, at), tt.want, "read")
		})
	}
}

func TestV1(t *testing.T) {
	for name, tt := range map[string]struct {
		files Files
		want  Cgroup
	}{
		"nothing is known": {Files{}, Cgroup{}},
		"what metrics-server asks": {
			Files{
				"cpuacct/cpuacct.usage":        "1500000000\n",
				"memory/memory.usage_in_bytes": "5000\n",
				// Of the cgroup alone, and with all below it.
				"memory/memory.stat":                 "inactive_file 1\nrss 2\ntotal_inactive_file 2000\ntotal_active_file 500\ntotal_rss 1000\ntotal_cache 3000\n",
				"memory/memory.memsw.usage_in_bytes": "5010\n", "memory/memory.memsw.limit_in_bytes": "9223372036854771712\n",
				"memory/memory.limit_in_bytes": "9223372036854771712\n",
			},
			Cgroup{
				CPU:    &CPU{Usage: 1500 * time.Millisecond},
				Memory: &Memory{Usage: 5000, WorkingSet: 3000, Reclaimable: 2500, RSS: 1000, Cache: 3000},
				Swap:   &Swap{Usage: 10, Limit: NoLimit},
			},
		},
		"limits": {
			Files{
				"cpu/cpu.shares": "1024\n", "cpu/cpu.cfs_quota_us": "20000\n", "cpu/cpu.cfs_period_us": "100000\n",
				"memory/memory.limit_in_bytes": "1048576\n", "memory/memory.soft_limit_in_bytes": "9223372036854771712\n",
				"memory/memory.memsw.usage_in_bytes": "0\n", "memory/memory.memsw.limit_in_bytes": "1049600\n",
			},
			Cgroup{
				Swap:   &Swap{Limit: 1024},
				Limits: Limits{CPUShares: 1024, CPUQuota: 20000, CPUPeriod: 100000, Memory: 1 << 20, MemoryAndSwap: 1<<20 + 1024},
			},
		},
		"no limits": {
			Files{"cpu/cpu.shares": "2\n", "cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"},
			Cgroup{Limits: Limits{CPUShares: 2, CPUPeriod: 100000}},
		},
		"a kernel that does not count swap": {
			Files{"memory/memory.usage_in_bytes": "5\n", "memory/memory.stat": "total_rss 1\n"},
			Cgroup{Memory: &Memory{Usage: 5, WorkingSet: 5, RSS: 1}, Swap: &Swap{Limit: NoLimit}},
		},
		"times in ticks": {
			Files{
				"cpuacct/cpuacct.usage": "5\n", "cpuacct/cpuacct.stat": "user 150\nsystem 20\n",
				"cpu/cpu.stat": "nr_periods 10\nnr_throttled 4\nthrottled_time 2000000\n",
			},
			Cgroup{CPU: &CPU{
				Usage: 5, User: 1500 * time.Millisecond, System: 200 * time.Millisecond,
				Periods: 10, Throttled: 4, ThrottledTime: 2 * time.Millisecond,
			}},
		},
		"processes": {
			Files{"pids/pids.current": "12\n", "pids/pids.max": "100\n", "cpu/cgroup.procs": "1\n22\n"},
			Cgroup{PIDs: &PIDs{Processes: 2, Threads: 12, Limit: 100}},
		},
		"devices": {
			Files{
				"blkio/blkio.throttle.io_service_bytes_recursive": "8:16 Read 10\n8:16 Write 20\n8:16 Sync 30\n8:0 Read 1\nTotal 31\n",
				"blkio/blkio.throttle.io_serviced_recursive":      "8:16 Read 1\n8:16 Write 2\nTotal 3\n",
			},
			Cgroup{IO: []Device{{Major: 8, BytesRead: 1}, {Major: 8, Minor: 16, BytesRead: 10, BytesWritten: 20, Reads: 1, Writes: 2}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.want.At = at
			got := V1(tt.files, at)
			if len(got.IO) == 0 {
				got.IO = nil
			}
			check.Deep(t, got, tt.want, "read")
		})
	}
}

func TestInterfaces(t *testing.T) {
	got := Interfaces(`Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0
  eth0: 1330483884  2   3    4    0     0          0         0  5353964    6    7    8    0     0       0          0
veth1a2b: 1 2  3    4    0     0          0         0  5    6    7    8    0     0       0          0
Docker0: 1 2  3    4    0     0          0         0  5    6    7    8    0     0       0          0
nerdctl0: 1 2  3    4    0     0          0         0  5    6    7    8    0     0       0          0
lo1: 1 2  3    4    0     0          0         0  5    6    7    8    0     0       0          0
  cni0: 5 0  0    0    0     0          0         0  0    0    0    0    0     0       0          0
short: 1 2 3
`)
	want := []Interface{{
		Name: "eth0", RxBytes: 1330483884, RxPackets: 2, RxErrors: 3, RxDropped: 4, TxBytes: 5353964, TxPackets: 6, TxErrors: 7, TxDropped: 8,
	}, {Name: "cni0", RxBytes: 5}}
	check.Deep(t, got, want, "read")
}

func TestOpenLimit(t *testing.T) {
	const head = "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max cpu time              unlimited            unlimited            seconds   \n"
	for text, want := range map[string]*int64{
		head + "Max open files            1024                 524288               files     \n": new(int64(1024)),
		head + "Max open files            unlimited            unlimited            files     \n": new(int64(-1)),
		head + "Max open files            many                 524288               files     \n": nil,
		head + "Max open files\n": nil,
		head:                      nil,
		"":                        nil,
	} {
		check.Deep(t, OpenLimit(text), want, "limit in %q", text)
	}
}

func TestIOOf(t *testing.T) {
	const text = "   7       0 loop0 1 2 3 4 5 6 7 8 9 10 11 0 0 0 0 0 0\n" +
		" 254       0 vda 95273 15040 7310594 33862 142094 134577 24026640 3520430 2 101264 3712250 7 0 41 1500 9 0\n" +
		" 254       1 vda1 1 2 3\n"
	check.Deep(t, IOOf(text, "/dev/vda"), &DeviceIO{
		ReadsMerged: 15040, SectorsRead: 7310594, Reading: 33862 * time.Millisecond,
		WritesMerged: 134577, SectorsWritten: 24026640, Writing: 3520430 * time.Millisecond,
		Current: 2, Busy: 101264 * time.Millisecond, Weighted: 3712250 * time.Millisecond,
	}, "a disk")
	for _, device := range []string{"/dev/vda1", "/dev/vdb", "vda", ""} { // too short a line, none, and no file
		if got := IOOf(text, device); got != nil {
			t.Errorf("%s: %+v", device, got)
		}
	}
}

// Whatever is in the files, nothing panics, and a working set is part of what is used.
func TestAnyFiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.StringMatching(`([a-z_]{1,12}|[0-9]{1,3}:[0-9]{1,3}|some) ([0-9]{1,25}|max|-1|avg10=[0-9.]{1,5}|Read [0-9]{1,5})?`)
		for _, v2 := range []bool{true, false} {
			names, read := FilesV1(All), V1
			if v2 {
				names, read = FilesV2(All), V2
			}
			files := Files{}
			for _, name := range names {
				if rapid.Bool().Draw(t, "there") {
					files[name] = strings.Join(rapid.SliceOfN(line, 0, 4).Draw(t, name), "\n")
				}
			}
			c := read(files, at)
			if c.Memory != nil && c.Memory.WorkingSet > c.Memory.Usage {
				t.Fatalf("the working set is %d of %d", c.Memory.WorkingSet, c.Memory.Usage)
			}
		}
	})
}

// TestHeld: page cache is not held, also if it was used a moment ago.
func TestHeld(t *testing.T) {
	for name, c := range map[string]struct {
		memory Memory
		want   uint64
	}{
		"a large cache":        {Memory{Usage: 8000, WorkingSet: 7000, Reclaimable: 7900}, 100},
		"nothing is known":     {Memory{Usage: 8000, WorkingSet: 7000}, 7000},
		"only the working set": {Memory{WorkingSet: 7000}, 7000},
		"all of it":            {Memory{Usage: 10, WorkingSet: 10, Reclaimable: 20}, 0},
	} {
		check.Equal(t, c.memory.Held(), c.want, "%s", name)
	}
}
