package resourceuse

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/tests/check"
)

// machine writes files below a directory, by path.
func machine(t *testing.T, v2 bool, files map[string]string) *Meter {
	t.Helper()
	m := &Meter{v2: v2, root: filepath.Join(t.TempDir(), "cgroup"), proc: filepath.Join(t.TempDir(), "proc")}
	for name, text := range files {
		path := filepath.Join(m.root, name)
		if rest, is := strings.CutPrefix(name, "proc/"); is {
			path = filepath.Join(m.proc, rest)
		}
		check.Fatal(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check.Fatal(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return m
}

const (
	dev  = "Inter-| Receive\n face |bytes\n    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n  eth0: 10 1 0 0 0 0 0 0 20 2 0 0 0 0 0 0\n"
	info = "MemTotal: 1000 kB\nMemFree: 400 kB\nAnonPages: 100 kB\nCached: 300 kB\nInactive(file): 100 kB\nSwapTotal: 50 kB\nSwapFree: 40 kB\nHugetlb: 64 kB\n"
	stat = "cpu  100 20 30 1000 5 1 2 0 0 0\ncpu0 1 1 1 1\nbtime 1700000000\n"
)

func pod() usage.Pod {
	return usage.Pod{ID: "/kubepods/pod1", Containers: []usage.Container{{Name: "app", RuntimeID: "c1"}, {Name: "gone", RuntimeID: "c9"}}}
}

func TestPod(t *testing.T) {
	for name, m := range map[string]*Meter{
		"v2": machine(t, true, map[string]string{
			"kubepods/pod1/cpu.stat": "usage_usec 3000000\n", "kubepods/pod1/memory.current": "30\n", "kubepods/pod1/memory.stat": "anon 1\n",
			"kubepods/pod1/c1/cpu.stat": "usage_usec 2000000\n", "kubepods/pod1/c1/cgroup.procs": "",
			"kubepods/pod1/5a/cpu.stat": "usage_usec 1000000\n", "kubepods/pod1/5a/cgroup.procs": "77\n",
			"proc/77/net/dev": dev,
		}),
		"v2, with systemd": machine(t, true, map[string]string{
			"kubepods/pod1/cpu.stat": "usage_usec 3000000\n", "kubepods/pod1/memory.current": "30\n", "kubepods/pod1/memory.stat": "anon 1\n",
			"kubepods/pod1/cri-containerd-c1.scope/cpu.stat": "usage_usec 2000000\n",
			"kubepods/pod1/cri-containerd-5a.scope/cpu.stat": "usage_usec 1000000\n", "kubepods/pod1/cri-containerd-5a.scope/cgroup.procs": "77\n",
			"proc/77/net/dev": dev,
		}),
		"v1": machine(t, false, map[string]string{
			"cpuacct/kubepods/pod1/cpuacct.usage": "3000000000\n", "memory/kubepods/pod1/memory.usage_in_bytes": "30\n", "memory/kubepods/pod1/memory.stat": "total_rss 1\n",
			"cpuacct/kubepods/pod1/c1/cpuacct.usage": "2000000000\n", "memory/kubepods/pod1/c1/cgroup.procs": "",
			"cpuacct/kubepods/pod1/5a/cpuacct.usage": "1000000000\n", "memory/kubepods/pod1/5a/cgroup.procs": "77\n",
			"proc/77/net/dev": dev,
		}),
	} {
		t.Run(name, func(t *testing.T) {
			p := pod()
			m.Pod(&p, usage.All)
			m.Network(&p)
			if p.Cgroup.CPU == nil || p.Cgroup.CPU.Usage != 3*time.Second || p.Cgroup.Memory.Usage != 30 {
				t.Errorf("the pod: %+v", p.Cgroup)
			}
			app, gone := p.Containers[0], p.Containers[1]
			if app.Cgroup.CPU == nil || app.Cgroup.CPU.Usage != 2*time.Second || app.ID == "" {
				t.Errorf("its container: %+v", app)
			}
			if gone.Cgroup.CPU != nil || gone.ID != "" {
				t.Errorf("one that has ended: %+v", gone)
			}
			check.Equal(t, p.Sandbox.RuntimeID, "5a", "its sandbox: %+v", p.Sandbox)
			if len(p.Network) != 1 || p.Network[0].TxBytes != 20 || p.NetworkAt.IsZero() {
				t.Errorf("its network: %+v", p.Network)
			}
			basic := pod()
			m.Pod(&basic, usage.Basic)
			if basic.Cgroup.CPU.Usage != 3*time.Second || basic.Sandbox.RuntimeID != "" {
				t.Errorf("with little read: %+v", basic)
			}
			nowhere := usage.Pod{ID: "/kubepods/pod2"}
			m.Pod(&nowhere, usage.All)
			m.Network(&nowhere)
			if nowhere.Cgroup.CPU != nil || nowhere.Network != nil {
				t.Errorf("a pod that is not there: %+v", nowhere)
			}
		})
	}
}

// TestOpen: what is behind a link is not asked: it may be on a volume that hangs. Here there is nothing.
func TestOpen(t *testing.T) {
	const limits = "Max cpu time unlimited unlimited seconds\nMax open files 1024 4096 files\n"
	for name, tt := range map[string]struct {
		v2  bool
		dir string
	}{"v2": {true, "kubepods/pod1"}, "v1": {false, "memory/kubepods/pod1"}} {
		t.Run(name, func(t *testing.T) {
			m := machine(t, tt.v2, map[string]string{
				filepath.Join(tt.dir, "c1/cgroup.procs"): "10\n9\n8\n", // 8 has ended
				"proc/9/limits":                          limits, "proc/10/limits": strings.ReplaceAll(limits, "1024", "7"),
			})
			for link, to := range map[string]string{
				"9/fd/0": "/dev/null", "9/fd/1": "pipe:[7]", "9/fd/2": "socket:[8]", "10/fd/0": "/mnt/hangs/file", "10/fd/1": "socket:[9]",
			} {
				check.Fatal(t, os.MkdirAll(filepath.Join(m.proc, filepath.Dir(link)), 0o755))
				check.Fatal(t, os.Symlink(to, filepath.Join(m.proc, link)))
			}
			p := pod()
			p.Containers[0].ID = "/kubepods/pod1/c1"
			m.Open(&p)
			check.Deep(t, p.Containers[0].Open, &usage.Open{Descriptors: 5, Sockets: 2, Limit: new(int64(1024))}, "open")
			if got := p.Containers[1].Open; got != nil {
				t.Errorf("one that has ended has open %+v", got)
			}
		})
	}
}

// TestOpenMany: all descriptors are counted, but not each is looked at.
func TestOpenMany(t *testing.T) {
	m := machine(t, true, map[string]string{"pod1/cgroup.procs": "9\n"})
	check.Fatal(t, os.MkdirAll(filepath.Join(m.proc, "9/fd"), 0o755))
	for i := range 5 {
		check.Fatal(t, os.Symlink("socket:[1]", filepath.Join(m.proc, "9/fd", strconv.Itoa(i))))
	}
	check.Deep(t, m.open(m.processes("/pod1"), 3), &usage.Open{Descriptors: 5, Sockets: 3}, "open")
}

func TestIO(t *testing.T) {
	m := machine(t, true, map[string]string{"proc/diskstats": " 254 0 vda 1 2 3 4 5 6 7 8 9 10 11\n"})
	if got := m.IO("/dev/vda"); got == nil || got.Current != 9 {
		t.Errorf("got %+v", got)
	}
	if got := machine(t, true, nil).IO("/dev/vda"); got != nil {
		t.Errorf("of a kernel that counts none: %+v", got)
	}
}

func TestNode(t *testing.T) {
	shared := map[string]string{
		"proc/meminfo": info, "proc/stat": stat, "proc/1/net/dev": dev, "proc/sys/kernel/pid_max": "4194304\n",
		"proc/loadavg": "0.1 0.2 0.3 2/345 999\n", "proc/pressure/cpu": "some avg10=1.00 avg60=0.00 avg300=0.00 total=5\n",
	}
	for name, tt := range map[string]struct {
		v2    bool
		files map[string]string
		cpu   time.Duration
		used  uint64
		huge  uint64
		parts string
	}{
		"v2": {true, map[string]string{"cpu.stat": "usage_usec 7000000\n", "memory.stat": "anon 5\nfile 6\n", "kubepods/cpu.stat": "usage_usec 1\n"}, 7 * time.Second, 11, 64 << 10, "[pods]"},
		"v1": {false, map[string]string{
			"cpuacct/cpuacct.usage": "7000000000\n", "memory/memory.usage_in_bytes": "500\n", "memory/memory.stat": "total_inactive_file 100\n",
			"cpuacct/kubepods/cpuacct.usage": "1000\n",
		}, 7 * time.Second, 500, 64 << 10, "[pods]"},
		"no cgroups to be seen": {true, nil, 1530 * time.Millisecond, 600 << 10, 0, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range shared {
				if tt.files == nil {
					tt.files = map[string]string{}
				}
				tt.files[k] = v
			}
			n := machine(t, tt.v2, tt.files).Node("n1", map[string]string{"pods": "/kubepods"}, usage.All)
			if n.Cgroup.CPU == nil || n.Cgroup.CPU.Usage != tt.cpu || n.Cgroup.Memory.Usage != tt.used {
				t.Errorf("%+v %+v", n.Cgroup.CPU, n.Cgroup.Memory)
			}
			if n.Cgroup.Swap.Usage != 10<<10 || n.Memory != 1000<<10 || n.HugePages != tt.huge || n.Booted.Unix() != 1_700_000_000 || n.MaxPIDs != 4194304 || n.PIDs != 345 {
				t.Errorf("%+v", n)
			}
			if n.Cgroup.Limits.Memory != n.Memory || n.Cgroup.Limits.MemoryAndSwap != n.SwapTotal {
				t.Errorf("the limits of the whole: %+v", n.Cgroup.Limits)
			}
			if len(n.Network) != 1 || n.Cgroup.CPUPressure.Some.Avg10 != 1 {
				t.Errorf("%+v", n)
			}
			check.Equal(t, fmt.Sprint(partNames(n)), tt.parts, "parts")
		})
	}
}

// TestShort: with little read, the limits and pressures of CPU and memory are known, and the parts of the machine. What
// metrics-server asks for has none of these.
func TestShort(t *testing.T) {
	const waited = "some avg10=1.00 avg60=0.00 avg300=0.00 total=1\n"
	files := map[string]string{
		"proc/meminfo": info, "proc/stat": stat, "proc/1/net/dev": dev,
		"proc/pressure/cpu": waited, "proc/pressure/memory": waited, "proc/pressure/io": waited,
	}
	for _, dir := range []string{"", "kubepods/", "kubepods/pod1/", "kubepods/pod1/c1/"} {
		for name, text := range map[string]string{
			"cpu.stat": "usage_usec 1\n", "memory.current": "30\n", "memory.stat": "anon 1\n", "memory.max": "100\n",
			"cpu.pressure": waited, "memory.pressure": waited, "io.pressure": waited, "pids.current": "3\n",
		} {
			if dir != "" {
				files[dir+name] = text
			}
		}
	}
	m := machine(t, true, files)
	for depth, want := range map[usage.Depth]bool{usage.Basic: false, usage.Short: true} {
		p := pod()
		m.Pod(&p, depth)
		n := m.Node("n1", map[string]string{"pods": "/kubepods"}, depth)
		check.Equal(t, len(n.Parts) == 1, want, "depth %d: parts", depth)
		for what, c := range map[string]usage.Cgroup{"node": n.Cgroup, "pod": p.Cgroup, "container": p.Containers[0].Cgroup} {
			check.Equal(t, c.CPUPressure != nil && c.MemoryPressure != nil, want, "depth %d, %s: pressures", depth, what)
			check.Equal(t, c.Limits.Memory > 0, want || what == "node", "depth %d, %s: limit", depth, what)
			if c.CPU == nil || c.Memory == nil || c.IOPressure != nil || c.PIDs != nil || n.Network != nil {
				t.Errorf("depth %d, %s: %+v", depth, what, c)
			}
		}
	}
}

// TestMade: when a cgroup was made is known, also after another one was made in it, and nothing is older than the machine.
func TestMade(t *testing.T) {
	booted := time.Unix(1_700_000_000, 0)
	for name, tt := range map[string]struct {
		v2        bool
		dir, file string
		at, want  time.Duration
	}{
		"v2":                  {true, "kubepods", "cgroup.events", time.Hour, time.Hour},
		"v1":                  {false, "memory/kubepods", "cgroup.clone_children", time.Hour, time.Hour},
		"before the boot, v2": {true, "kubepods", "cgroup.events", -time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine(t, tt.v2, map[string]string{
				"proc/stat": stat, filepath.Join(tt.dir, tt.file): "", filepath.Join(tt.dir, "cpu.stat"): "usage_usec 1\n",
				"cpuacct/kubepods/cpuacct.usage": "1000\n",
			})
			dir := filepath.Join(m.root, tt.dir)
			for path, at := range map[string]time.Time{dir: booted.Add(2 * time.Hour), filepath.Join(dir, tt.file): booted.Add(tt.at)} {
				check.Fatal(t, os.Chtimes(path, at, at))
			}
			n := m.Node("n1", map[string]string{"pods": "/kubepods"}, usage.All)
			if len(n.Parts) != 1 || !n.Parts[0].Started.Equal(booted.Add(tt.want)) {
				t.Errorf("%+v, want %v after the boot", n.Parts, tt.want)
			}
		})
	}
}

func partNames(n usage.Node) (names []string) {
	for i := range n.Parts {
		names = append(names, n.Parts[i].Name)
	}
	return names
}

func TestDisk(t *testing.T) {
	d := Disk(t.TempDir())
	if d == nil || *d.Capacity == 0 || *d.Used > *d.Capacity {
		t.Errorf("%+v", d)
	}
	if Disk("/nowhere") != nil {
		t.Error("there is room nowhere")
	}
}

// TestDevice: devices have the names that dashboards look for.
func TestDevice(t *testing.T) {
	m := machine(t, true, map[string]string{"pod1/io.stat": "254:1 rbytes=1 wbytes=2 rios=3 wios=4\n7:9 rbytes=5\n", "pod1/cpu.stat": "usage_usec 1\n"})
	m.sys = t.TempDir()
	check.Fatal(t, os.MkdirAll(filepath.Join(m.sys, "dev/block"), 0o755))
	check.Fatal(t, os.Symlink("../../devices/pci0000:00/virtio0/block/vda/vda1", filepath.Join(m.sys, "dev/block/254:1")))
	got := m.Cgroup("/pod1", usage.All).IO
	if len(got) != 2 || got[0].Name != "" || got[1].Name != "/dev/vda1" || got[1].Reads != 3 {
		t.Errorf("got %+v", got)
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	buffer := make([]byte, 3*os.Getpagesize())
	for name, size := range map[string]int{"empty": 0, "short": 10, "page": os.Getpagesize(), "longer": os.Getpagesize() + 1, "cut off": 5 * os.Getpagesize()} {
		path, text := filepath.Join(dir, name), strings.Repeat("x", size)
		check.Fatal(t, os.WriteFile(path, []byte(text), 0o644))
		if got, ok := read(path, buffer); !ok || got != text[:min(size, len(buffer))] {
			t.Errorf("%s: %d bytes of %d, %v", name, len(got), size, ok)
		}
	}
	if _, ok := read(filepath.Join(dir, "none"), buffer); ok {
		t.Error("there is none")
	}
	if _, ok := read(dir, buffer); ok {
		t.Error("a directory was read")
	}
}

// BenchmarkCgroup reads all of one.
func BenchmarkCgroup(b *testing.B) {
	m := New()
	b.ReportAllocs()
	for b.Loop() {
		m.Cgroup("/", usage.All)
	}
}

func TestLeft(t *testing.T) {
	v1 := machine(t, false, map[string]string{
		"proc/meminfo":            "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 700 kB\n",
		"proc/sys/kernel/pid_max": "4000\n", "proc/sys/kernel/threads-max": "1000\n", "proc/loadavg": "0.1 0.2 0.3 2/345 999\n",
		"memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/memory.usage_in_bytes": "1\n", "memory/memory.stat": "total_rss 1\n",
		"memory/a/memory.limit_in_bytes": "1000\n", "memory/a/memory.usage_in_bytes": "900\n",
		"memory/a/memory.stat":             "total_inactive_file 100\ntotal_active_file 200\n",
		"memory/a/b/memory.limit_in_bytes": "500\n", "memory/a/b/memory.usage_in_bytes": "600\n", "memory/a/b/memory.stat": "total_rss 1\n",
		"pids/a/pids.current": "12\n",
	})
	v2 := machine(t, true, map[string]string{
		"a/memory.max": "1000\n", "a/memory.current": "900\n", "a/memory.stat": "inactive_file 100\nactive_file 100\nslab_reclaimable 100\n",
		"a/b/memory.max": "500\n", "a/b/memory.current": "600\n", "a/b/memory.stat": "anon 1\n",
		"a/b/c/memory.max": "max\n", "a/b/c/memory.current": "600\n", "a/b/c/memory.stat": "anon 1\n", "a/pids.current": "12\n",
		"a/memory.high": "max\n", "a/b/memory.high": "450\n", "a/b/c/memory.high": "700\n",
	})
	want := []Bound{{Path: "/a", Limit: 1000, Available: 400, Usage: 900}, {Path: "/a/b", Limit: 500, Usage: 600}}
	for name, m := range map[string]*Meter{"v1": v1, "v2": v2} {
		check.Same(t, m.Bounds("/a/b/c"), want, "%s: limits", name)
		check.Count(t, m.Processes("/a"), 12, "%s: %d processes", name)
	}
	check.Same(t, v1.SoftBounds("/a/b/c"), want, "v1: soft limits")
	want[1].Limit = 450
	want = append(want, Bound{Path: "/a/b/c", Limit: 700, Available: 100, Usage: 600})
	check.Same(t, v2.SoftBounds("/a/b/c"), want, "v2: soft limits")
	if left, all, ok := v1.MemoryLeft(); !ok || left != 700<<10 || all != 1000<<10 {
		t.Errorf("memory: %d of %d, %v", left, all, ok)
	}
	if left, all, ok := v1.ProcessesLeft(); !ok || left != 655 || all != 1000 {
		t.Errorf("processes: %d of %d, %v", left, all, ok)
	}
	if _, _, ok := v2.MemoryLeft(); ok {
		t.Error("memory is known of no machine")
	}
	if _, _, ok := v2.ProcessesLeft(); ok {
		t.Error("processes are known of no machine")
	}
}
