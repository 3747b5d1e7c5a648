package nodefacts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// machineOf reads the facts once.
func machineOf(t *testing.T, f *Facts) (*port.Machine, error) {
	t.Helper()
	type answer struct {
		m   *port.Machine
		err error
	}
	got := make(chan answer, 1)
	f.Machine(t.Context(), func(m *port.Machine, err error) { got <- answer{m, err} })
	a := <-got
	return a.m, a.err
}

// perCPU are ten pods for each CPU.
func perCPU(cpus int) int { return 10 * cpus }

func writeAll(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, data := range files {
		path := filepath.Join(root, name)
		check.Fatal(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check.Fatal(t, os.WriteFile(path, []byte(data), 0o644))
	}
}

func TestFacts(t *testing.T) {
	root := t.TempDir()
	writeAll(t, root, map[string]string{
		"proc/meminfo":                                             "MemTotal:        1048576 kB\nMemFree: 5 kB\nSwapTotal:  1024 kB\n",
		"proc/sys/kernel/random/boot_id":                           "b-1\n",
		"sys/devices/system/cpu/online":                            "0-2,5\n",
		"etc/machine-id":                                           "m-1\n",
		"etc/os-release":                                           "NAME=\"Some\"\nPRETTY_NAME=\"Some Linux 1\"\n",
		"sys/class/dmi/id/product_uuid":                            "",
		"sys/kernel/mm/hugepages/x":                                "",
		"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages":    "8\n",
		"sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0\n",
	})
	ip := "192.0.2.1"
	f := check.Value(New(Config{
		Disk: root, Root: root, MaxPods: perCPU, Version: "v1.36.0",
		Addresses: func() []v1.NodeAddress { return []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: ip}} },
		Held: func(name v1.ResourceName, capacity int64) int64 {
			switch name {
			case v1.ResourceMemory:
				return 100 << 20
			case v1.ResourceCPU:
				return 250
			case v1.ResourceEphemeralStorage:
				return 2 * capacity
			default:
				return 0
			}
		},
	}))(t)
	m := check.Value(machineOf(t, f))(t)
	for _, c := range []struct {
		list v1.ResourceList
		name v1.ResourceName
		want string
	}{
		{m.Capacity, v1.ResourceMemory, "1Gi"},
		{m.Allocatable, v1.ResourceMemory, "908Mi"}, // less what is held, and the huge pages
		{m.Capacity, "hugepages-2Mi", "16Mi"},
		{m.Capacity, "hugepages-1Gi", "0"},
		{m.Capacity, v1.ResourcePods, "40"},
		{m.Allocatable, v1.ResourceEphemeralStorage, "0"},
	} {
		if q := c.list[c.name]; q.String() != c.want {
			t.Errorf("%s is %s, want %s", c.name, q.String(), c.want)
		}
	}
	if q := m.Capacity[v1.ResourceCPU]; q.String() != "4" {
		t.Errorf("%s CPUs, want the 4 that are online", q.String())
	}
	cpu, left := m.Capacity[v1.ResourceCPU], m.Allocatable[v1.ResourceCPU]
	if cpu.MilliValue()-left.MilliValue() != 250 {
		t.Errorf("of %s CPUs pods may have %s", cpu.String(), left.String())
	}
	i := m.Info
	if i.BootID != "b-1" || i.MachineID != "m-1" || i.SystemUUID != "m-1" || i.OSImage != "Some Linux 1" || i.KernelVersion == "" ||
		i.KubeletVersion != "v1.36.0" || i.Swap == nil || *i.Swap.Capacity != 1<<20 {
		t.Errorf("info %+v", i)
	}
	if again, _ := machineOf(t, f); again != m || f.Last() != m {
		t.Error("nothing has changed, and it is another")
	}
	writeAll(t, root, map[string]string{"sys/devices/system/cpu/online": "0-7\n"})
	if again, _ := machineOf(t, f); again == m || again.Allocatable.Pods().Value() != 80 || f.Last() != again {
		t.Errorf("with 8 CPUs there is room for %s pods", again.Allocatable.Pods())
	}
	ip = "192.0.2.2"
	if again, _ := machineOf(t, f); again == m || again.Addresses[0].Address != ip {
		t.Error("the address has changed, and it is the same")
	}
	writeAll(t, root, map[string]string{"proc/meminfo": "MemTotal: 2097152 kB\n", "etc/os-release": "NAME=Some\n"})
	if again, _ := machineOf(t, f); again == m || again.Info.OSImage != "Linux" {
		t.Errorf("the memory has changed, and the system has no name: %+v", again.Info)
	}
	check.Fatal(t, os.Remove(filepath.Join(root, "etc/os-release")))
	if again, _ := machineOf(t, f); again.Info.OSImage != "Unknown" {
		t.Errorf("without os-release: %q", again.Info.OSImage)
	}
	writeAll(t, root, map[string]string{"proc/meminfo": "MemFree: 1 kB\n"})
	if _, err := machineOf(t, f); err == nil || !strings.Contains(err.Error(), "MemTotal") {
		t.Errorf("without memory: %v", err)
	}
}

// TestFactsOfThisMachine: they can be read where the tests run.
func TestFactsOfThisMachine(t *testing.T) {
	f := check.Value(New(Config{Disk: t.TempDir(), MaxPods: perCPU}))(t)
	m := check.Value(machineOf(t, f))(t)
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage} {
		if q := m.Capacity[name]; q.Sign() <= 0 {
			t.Errorf("no %s", name)
		}
	}
	if m.Info.KernelVersion == "" || m.Info.BootID == "" {
		t.Errorf("info %+v", m.Info)
	}
}

// TestNoDisk: without a path, the node has no ephemeral storage, whatever is held of it.
func TestNoDisk(t *testing.T) {
	f := check.Value(New(Config{MaxPods: perCPU, Held: func(v1.ResourceName, int64) int64 { return 1 }}))(t)
	m := check.Value(machineOf(t, f))(t)
	for _, list := range []v1.ResourceList{m.Capacity, m.Allocatable} {
		if q, has := list[v1.ResourceEphemeralStorage]; has {
			t.Errorf("%s of ephemeral storage", q.String())
		}
		if q := list[v1.ResourceMemory]; q.Sign() <= 0 {
			t.Error("no memory")
		}
	}
}

func TestConfig(t *testing.T) {
	none := func(int) int { return 0 }
	for _, c := range []Config{{Disk: "relative", MaxPods: perCPU}, {Disk: "/", MaxPods: none}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}

// TestFixed: what is fixed stays as it was read first, and what follows from it; the rest does not.
func TestFixed(t *testing.T) {
	const pages = v1.ResourceName(v1.ResourceHugePagesPrefix + "2Mi")
	root := t.TempDir()
	write := func(cpus, kb, huge string) {
		writeAll(t, root, map[string]string{
			"proc/meminfo": "MemTotal: " + kb + " kB\n", "sys/devices/system/cpu/online": cpus + "\n",
			"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": huge + "\n",
		})
	}
	for _, c := range []struct {
		name  string
		fixed func(v1.ResourceName) bool
		want  string
	}{
		{"nothing", nil, "8 CPUs 80 pods 2Gi 64Mi"},
		{"CPUs", func(n v1.ResourceName) bool { return n == v1.ResourceCPU }, "2 CPUs 20 pods 2Gi 64Mi"},
		{"memory", func(n v1.ResourceName) bool { return n == v1.ResourceMemory || n == pages }, "8 CPUs 80 pods 1Gi 16Mi"},
	} {
		write("0-1", "1048576", "8")
		f := check.Value(New(Config{Disk: root, Root: root, MaxPods: perCPU, Fixed: c.fixed}))(t)
		check.Value(machineOf(t, f))(t)
		write("0-7", "2097152", "32")
		l := check.Value(machineOf(t, f))(t).Capacity
		huge := l[pages]
		got := l.Cpu().String() + " CPUs " + l.Pods().String() + " pods " + l.Memory().String() + " " + huge.String()
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
