package node

import (
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/answer"
	"github.com/troupe-dev/troupe/cri/translate"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/nodefacts"
	must "github.com/troupe-dev/troupe/tests/check" // check is a function of this package
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// TestTranslatedByTheMachineNow: containers that start later have the OOM score and the swap of the memory that the
// machine has then.
func TestTranslatedByTheMachineNow(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) { hosttest.Write(t, filepath.Join(root, name), text) }
	write("sys/devices/system/cpu/online", "0-3\n")
	write("proc/meminfo", "MemTotal: 1048576 kB\nSwapTotal: 0 kB\n")
	c := configOf(t, "memorySwap: {swapBehavior: LimitedSwap}")
	m := machine{cgroups: cgroupFacts{v2: true, swap: true}}
	m.facts = must.Value(nodefacts.New(nodefacts.Config{
		Root: root, MaxPods: c.MaxPods, Addresses: func() []v1.NodeAddress { return nodeAddresses([]string{"192.0.2.1"}, "n1") },
	}))(t)
	read := func() translate.Node {
		must.Value(answer.Of(t.Context(), func(done func(*port.Machine, error)) { m.facts.Machine(t.Context(), done) }))(t)
		n := translate.Node{MemoryCapacity: 1}
		m.refresh(&n, c)
		return n
	}
	if n := read(); n.MemoryCapacity != 1<<30 || n.Memory.Capacity != 1<<30 || n.Memory.Swap != 0 || m.cores() != 4 {
		t.Errorf("with 1 GiB: %+v, %d CPUs", n, m.cores())
	}
	write("proc/meminfo", "MemTotal: 2097152 kB\nSwapTotal: 524288 kB\n")
	write("sys/devices/system/cpu/online", "0-7\n")
	if n := read(); n.MemoryCapacity != 2<<30 || n.Memory.Capacity != 2<<30 || n.Memory.Swap != 1<<29 || n.Memory.Allocatable == 0 || m.cores() != 8 {
		t.Errorf("with 2 GiB and swap: %+v, %d CPUs", n, m.cores())
	}
}

// TestFixed: what containers have of their own is given out by what there was at the start, so the Node shows no more.
func TestFixed(t *testing.T) {
	const cpus, memory = "cpuManagerPolicy: static\nsystemReserved: {cpu: 500m}\n",
		"memoryManagerPolicy: Static\nreservedMemory: [{numaNode: 0, limits: {memory: 100Mi}}]\n"
	names := []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceHugePagesPrefix + "2Mi", v1.ResourceEphemeralStorage}
	for text, want := range map[string]string{
		"": "", cpus: "cpu ", memory: "memory hugepages-2Mi ", cpus + memory: "cpu memory hugepages-2Mi ",
	} {
		got := ""
		for _, name := range names {
			if fixed(configOf(t, text))(name) {
				got += string(name) + " "
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
