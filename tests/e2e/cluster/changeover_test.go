package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/member"
)

// TestChangeover: a node goes from the kubelet to troupe, and back, while a pod has a CPU and memory to itself, and others
// have devices. Nothing is restarted, nothing moves, and each agent goes on with what the other one has written and gives
// the rest to others.
//
//tier:all the kubelet runs beside
func TestChangeover(t *testing.T) {
	t.Parallel()
	lab.Need(t, lab.GoToolchain)
	all, own := twoCPUs(t)
	rest := all.Difference(cpuset.New(own)).String()
	troupe, kubelet := agentOf(t, "troupe"), agentOf(t, "kubelet")
	kubelet = kubelet.OwnPlugins()
	settings := fmt.Sprintf("cpuManagerPolicy: static\nreservedSystemCPUs: %q\nmemoryManagerPolicy: Static\n"+
		"systemReserved: {memory: 99Mi}\nreservedMemory: [{numaNode: 0, limits: {memory: 100Mi}}]\n", strconv.Itoa(all.List()[0]))
	b, m := joinedAs(t, "changeover", kubelet, settings)
	create := func(name string) *v1.Pod {
		b.create(t, b.pod(name, changes(work("sleep"), func(s *v1.PodSpec) { s.Containers[0].Resources = limits("1", "16Mi") })))
		p := b.awaitPod(t, name, "is ready", ready)
		b.awaitAllowed(t, name, strconv.Itoa(own))
		return p
	}
	p := create("own")
	devices := b.withDevices(t)
	devices.add(t, "kept", 2)
	last := "by-kubelet" // the newest pod with devices
	devices.add(t, last, 1)
	written := b.states(t, m.Root())
	check.Has(t, written, fmt.Sprintf("%s app: memory 16777216 of [0]", p.UID), "the state of memory")
	for i, to := range []member.Agent{troupe, kubelet, troupe} {
		check.Fatal(t, m.Kill(t.Context()))
		check.Fatal(t, m.Configure(to, settings))
		check.Fatal(t, m.Start())
		name := fmt.Sprint("after-", i)
		b.create(t, b.pod(name, work("sleep")))
		b.awaitPod(t, name, "is ready with "+to.Name, ready)
		b.awaitAllowed(t, name, rest)
		b.awaitAllowed(t, p.Name, strconv.Itoa(own))
		after := b.get(t, p.Name).Status.ContainerStatuses[0]
		if was := p.Status.ContainerStatuses[0]; after.ContainerID != was.ContainerID || after.RestartCount != 0 {
			t.Errorf("with %s: container %s with %d restarts; want %s", to.Name, after.ContainerID, after.RestartCount, was.ContainerID)
		}
		if now := b.states(t, m.Root()); now != written {
			t.Errorf("with %s, the state files are\n%s\nand were\n%s", to.Name, now, written)
		}
		devices.hold(t, to.Name)
		devices.awaitCards(t, to.Name)
		devices.restart(t, last)
		last = fmt.Sprint("devices-", i)
		devices.add(t, last, 1)
		devices.hold(t, to.Name+" and one pod more")
		if i == 0 { // one that troupe has given the CPU and the memory to
			b.remove(t, p.Name)
			b.awaitGone(t, p.Name)
			p = create("own-too")
			written = b.states(t, m.Root())
		}
	}
}

// states are the state files of CPUs and memory: the first as it is, and of the second what the kubelet's own code reads.
func (b *bed) states(t *testing.T, root string) string {
	t.Helper()
	cpus, err := os.ReadFile(filepath.Join(root, "cpu_manager_state"))
	if err != nil {
		t.Fatal(err)
	}
	data := check.Value(os.ReadFile(filepath.Join(root, "memory_manager_state")))(t)
	c := memorystate.MemoryManagerCheckpointV1{}
	if err = json.Unmarshal(data, &c); err == nil {
		err = c.VerifyChecksum()
	}
	if err != nil {
		t.Errorf("memory_manager_state: %v: %s", err, data)
	}
	out := string(cpus)
	for uid, containers := range c.Entries {
		for name, blocks := range containers {
			for _, block := range blocks {
				out += fmt.Sprintf("\n%s %s: %s %d of %v", uid, name, block.Type, block.Size, block.NUMAAffinity)
			}
		}
	}
	return out
}
