package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/cgroups"
	v1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/isolation"
	"github.com/troupe-dev/troupe/actors/decide/memory"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/answer"
	"github.com/troupe-dev/troupe/cri/translate"
	"github.com/troupe-dev/troupe/supervisor/config"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/kernelfile"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/nodefacts"
	policy "github.com/troupe-dev/troupe/supervisor/host/kernel/selinux"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/topology"
	"github.com/troupe-dev/troupe/supervisor/version"
)

// machine is what was found out about this host at the start.
type machine struct {
	memory int64 // bytes
	swap   int64 // bytes
	// cpus are the CPUs that are online, possible 1 above the highest that may ever be.
	cpus, possible int
	// addresses are this machine's now.
	addresses *addresses
	// resolvConf is the text of the resolver file; noResolver says why it can't be read.
	resolvConf string
	noResolver error
	oomFloor   *int64
	hugePages  []string
	cgroups    cgroupFacts
	capacity   v1.ResourceList
	// facts are what the node shows, and allocatable what of that pods may have.
	facts       *nodefacts.Facts
	allocatable v1.ResourceList
	// selinux is what SELinux means for volumes, nil if this host has none; noLabels says why they are not mounted with
	// labels all the same.
	selinux  *isolation.SELinuxHost
	noLabels error
}

func detectMachine(c config.Config, name string) (machine, error) {
	m := machine{}
	online, err := topology.Online("/")
	if err != nil {
		return m, fmt.Errorf("CPUs of this machine: %w", err)
	}
	m.cpus = online.Size()
	if m.possible, err = topology.Possible("/"); err != nil {
		return m, fmt.Errorf("CPUs of this machine: %w", err)
	}
	m.addresses = addressesOf(c.NodeIPs(), name, c.ExternalCloud())
	if err := m.count(c, name); err != nil {
		return m, err
	}
	if path := c.ResolvConf(); path != "" {
		data, err := readResolver(path)
		m.resolvConf, m.noResolver = string(data), err
	}
	m.cgroups = lookAtCgroups(cgroupRoot, ownCgroup)
	m.oomFloor = oomFloor()
	m.hugePages = slices.Sorted(slices.Values(cgroups.HugePageSizes()))
	m.selinux, m.noLabels = policy.Machine().Host(c.Gates().Enabled("SELinuxMount"))
	return m, nil
}

// swapOn names the first device or file that is swapped to, empty for none.
func swapOn() string {
	data, err := os.ReadFile("/proc/swaps")
	if err != nil {
		return "" // a kernel without swap
	}
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		if f := strings.Fields(line); i > 0 && len(f) > 0 {
			return f[0]
		}
	}
	return ""
}

// count makes the facts, and reads them once.
func (m *machine) count(c config.Config, name string) error {
	disk := ""
	if c.Eviction().LocalStorage {
		disk = nearest(c.Options().RootDir)
	}
	var err error
	m.facts, err = nodefacts.New(nodefacts.Config{
		Disk: disk, MaxPods: c.MaxPods, Held: held(c), Fixed: fixed(c),
		Addresses: func() []v1.NodeAddress { return nodeAddresses(m.addresses.look(), name) }, Version: version.Kubernetes(),
	})
	if err != nil {
		return err
	}
	found, err := answer.Of(context.Background(), func(done func(*port.Machine, error)) {
		m.facts.Machine(context.Background(), done)
	})
	if err != nil {
		return err
	}
	m.take(found)
	return nil
}

// fixed are the resources that are given out by what the agent read of the machine at its start: containers have CPUs
// or memory of their own, and the state files are about these. More of them would be bound to the node, and refused.
func fixed(c config.Config) func(v1.ResourceName) bool {
	ownCPUs, ownMemory := c.StaticCPUs(), c.Kubelet().MemoryManagerPolicy != kubelet.NoneMemoryManagerPolicy
	return func(name v1.ResourceName) bool {
		return ownCPUs && name == v1.ResourceCPU || ownMemory && memory.Is(name)
	}
}

// take takes in what was read of the machine.
func (m *machine) take(found *port.Machine) {
	m.memory, m.swap = found.Capacity.Memory().Value(), 0
	if s := found.Info.Swap; s != nil && s.Capacity != nil {
		m.swap = *s.Capacity
	}
	m.allocatable, m.capacity = found.Allocatable, found.Capacity
}

// cores is how many CPUs the machine has now.
func (m *machine) cores() int {
	if found := m.facts.Last(); found != nil {
		return int(found.Capacity.Cpu().Value())
	}
	return m.cpus
}

// refresh has a translation count with the memory and swap that the machine has now.
func (m machine) refresh(n *translate.Node, c config.Config) {
	if found := m.facts.Last(); found != nil {
		m.take(found)
	}
	n.MemoryCapacity, n.Memory = m.memory, m.memoryPolicy(c)
}

// nearest is the path, or its nearest existing parent: a directory that is made later is on the
// same file system.
func nearest(path string) string {
	for !exists(path) && path != filepath.Dir(path) {
		path = filepath.Dir(path)
	}
	return path
}

// appArmor reports whether this kernel can confine a container by a profile.
func appArmor() bool {
	on, err := os.ReadFile("/sys/module/apparmor/parameters/enabled")
	return err == nil && strings.HasPrefix(string(on), "Y") && exists("/sys/kernel/security/apparmor")
}

// capSysResource is the bit of CAP_SYS_RESOURCE (capabilities(7)).
const capSysResource = 24

// oomFloor is the lowest oom_score_adj that may be set here: one's own, without
// CAP_SYS_RESOURCE; nil for any.
func oomFloor() *int64 {
	if caps, ok := capabilities("/proc/self/status"); !ok || caps&(1<<capSysResource) != 0 {
		return nil
	}
	n, err := kernelfile.Number("/proc/self/oom_score_adj")
	if err != nil {
		return nil
	}
	return &n
}

// capabilities are the effective ones of the process with that status (proc_pid_status(5)).
func capabilities(status string) (bits uint64, ok bool) {
	hex, _ := kernelfile.Field(status, "CapEff:")
	bits, err := strconv.ParseUint(hex, 16, 64)
	return bits, err == nil
}

// memoryPolicy is none with cgroup v1, where [machine.memoryWarnings] names the settings.
func (m machine) memoryPolicy(c config.Config) podcgroup.MemoryPolicy {
	if !m.cgroups.v2 {
		return podcgroup.MemoryPolicy{}
	}
	k, allocatable := c.Kubelet(), m.allocatable[v1.ResourceMemory]
	return podcgroup.MemoryPolicy{
		QoS: c.Gates().Enabled("MemoryQoS"), Throttling: *k.MemoryThrottlingFactor,
		Tiered:      k.MemoryReservationPolicy == kubelet.TieredReservationMemoryReservationPolicy,
		Allocatable: allocatable.Value(), PageSize: int64(os.Getpagesize()),
		LimitedSwap: k.MemorySwap.SwapBehavior == limitedSwap, Capacity: m.memory, Swap: m.swap,
	}
}

// limitedSwap is a value of memorySwap.swapBehavior.
const limitedSwap = "LimitedSwap"

// memoryWarnings name settings of memory that this host cannot follow.
func (m machine) memoryWarnings(c config.Config) (out []string) {
	if !m.cgroups.v2 && c.Gates().Enabled("MemoryQoS") {
		out = append(out, "feature gate MemoryQoS has no effect: this host uses cgroup v1: boot it with v2")
	}
	if c.Kubelet().MemorySwap.SwapBehavior != limitedSwap {
		return out
	}
	const noSwap = "memorySwap.swapBehavior: LimitedSwap has no effect, containers cannot swap: "
	switch {
	case !m.cgroups.v2:
		out = append(out, noSwap+"this host uses cgroup v1: boot it with v2")
	case !m.cgroups.swap:
		out = append(out, noSwap+"this kernel does not account for swap: boot it with swapaccount=1")
	case m.swap == 0:
		out = append(out, noSwap+"this host has no swap: run swapon")
	}
	return out
}

// translation is what the pod → CRI translation needs to know.
func (m machine) translation(c config.Config) *translate.Node {
	k := c.Kubelet()
	return &translate.Node{
		RootDir: c.Options().RootDir, PodLogs: c.PodLogsDir(),
		ResolvConf: m.resolvConf, NoResolvConf: m.noResolver, LocalResolver: c.ResolvConf() == "",
		NodeIPs: c.NodeIPs(), ClusterDNS: c.ClusterDNS(), ClusterDomain: c.ClusterDomain(),
		MemoryCapacity: m.memory, HugePageSizes: m.hugePages,
		PossibleCPUs: m.possible, OOMScoreAdjFloor: m.oomFloor,
		CgroupV2: m.cgroups.v2, SwapAccounting: m.cgroups.swap,
		Memory:           m.memoryPolicy(c),
		OOMKillGroup:     m.cgroups.v2 && (k.SingleProcessOOMKill == nil || !*k.SingleProcessOOMKill),
		NoQuotaOfOwnCPUs: c.NoQuotaOfOwnCPUs(),
		NoCPUQuota:       k.CPUCFSQuota != nil && !*k.CPUCFSQuota,
		CPUQuotaPeriod:   quotaPeriod(k.CPUCFSQuotaPeriod), SeccompDefault: k.SeccompDefault != nil && *k.SeccompDefault,
	}
}
