package node

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/cri/translate"
	"github.com/troupe-dev/troupe/supervisor/config"
)

// machine is what was found out about this host at the start.
type machine struct {
	memory     int64 // bytes
	cpus       int
	addresses  []string
	resolvConf string
	oomFloor   *int64
	hugePages  []string
	cgroups    cgroupFacts
}

func lookAround(c config.Config) (machine, error) {
	m := machine{cpus: runtime.NumCPU()}
	var err error
	if m.memory, err = totalMemory(); err != nil {
		return m, err
	}
	for _, ip := range c.NodeIPs() {
		if !ip.IsUnspecified() {
			m.addresses = append(m.addresses, ip.String())
		}
	}
	if len(m.addresses) == 0 {
		if ip, ok := ownAddress(); ok {
			m.addresses = []string{ip}
		}
	}
	if path := c.ResolvConf(); path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return m, fmt.Errorf("resolvConf: %w: give another file in the configuration, or \"\" for none", err)
		}
		m.resolvConf = string(data)
	}
	if c.FailSwapOn() {
		if device := swapOn(); device != "" {
			return m, fmt.Errorf("failSwapOn: swap is on (%s): turn it off, or set failSwapOn: false", device)
		}
	}
	m.cgroups = lookAtCgroups(cgroupRoot, ownCgroup)
	if err := m.cgroups.allowedBy(c); err != nil {
		return m, err
	}
	m.oomFloor = oomFloor()
	m.hugePages = hugePageSizes()
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

func totalMemory() (int64, error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // read only
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "MemTotal:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("/proc/meminfo: MemTotal: %w", err)
			}
			return kb << 10, nil
		}
	}
	return 0, fmt.Errorf("/proc/meminfo has no MemTotal")
}

// ownAddress is the first global address of an interface that is up, IPv4 first.
func ownAddress() (string, bool) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "", false
	}
	best := ""
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || !p.Addr().IsGlobalUnicast() {
			continue
		}
		if p.Addr().Is4() {
			return p.Addr().String(), true
		}
		if best == "" {
			best = p.Addr().String()
		}
	}
	return best, best != ""
}

// capSysResource is the bit of CAP_SYS_RESOURCE (capabilities(7)).
const capSysResource = 24

// oomFloor is the lowest oom_score_adj that may be set here: one's own, without
// CAP_SYS_RESOURCE; nil for any.
func oomFloor() *int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(status)) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			if err != nil || caps&(1<<capSysResource) != 0 {
				return nil
			}
		}
	}
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return nil
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(own)), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// hugePageSizes are those of the kernel, as hugetlb cgroup files name them.
func hugePageSizes() []string {
	dirs, err := filepath.Glob("/sys/kernel/mm/hugepages/hugepages-*kB")
	if err != nil {
		return nil
	}
	var out []string
	for _, d := range dirs {
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(d), "hugepages-"), "kB"), 10, 64)
		switch {
		case err != nil:
		case kb >= 1<<20:
			out = append(out, fmt.Sprintf("%dGB", kb>>20))
		case kb >= 1<<10:
			out = append(out, fmt.Sprintf("%dMB", kb>>10))
		default:
			out = append(out, fmt.Sprintf("%dKB", kb))
		}
	}
	return out
}

// allocatable is capacity less what is reserved for the system and Kubernetes.
func (m machine) allocatable(c config.Config) v1.ResourceList {
	out := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(int64(m.cpus)*1000, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(m.memory, resource.BinarySI),
		v1.ResourcePods:   *resource.NewQuantity(int64(c.MaxPods(m.cpus)), resource.DecimalSI),
	}
	system, kube := c.Reserved()
	for _, reserved := range []v1.ResourceList{system, kube} {
		for name, q := range reserved {
			if have, ok := out[name]; ok {
				have.Sub(q)
				out[name] = have
			}
		}
	}
	return out
}

// translation is what the pod → CRI translation needs to know.
func (m machine) translation(c config.Config, name string) *translate.Node {
	k := c.Kubelet()
	return &translate.Node{
		Name: name, RootDir: c.Options().RootDir, PodLogs: c.PodLogsDir(),
		ResolvConf: m.resolvConf, LocalResolver: c.ResolvConf() == "",
		ClusterDNS: c.ClusterDNS(), ClusterDomain: c.ClusterDomain(),
		Allocatable: m.allocatable(c), MemoryCapacity: m.memory, HugePageSizes: m.hugePages,
		PossibleCPUs: m.cpus, OOMScoreAdjFloor: m.oomFloor,
		CgroupV2: m.cgroups.v2, SwapAccounting: m.cgroups.swap,
		OOMKillGroup:   m.cgroups.v2 && (k.SingleProcessOOMKill == nil || !*k.SingleProcessOOMKill),
		NoCPUQuota:     k.CPUCFSQuota != nil && !*k.CPUCFSQuota,
		CPUQuotaPeriod: quotaPeriod(k.CPUCFSQuotaPeriod), SeccompDefault: k.SeccompDefault != nil && *k.SeccompDefault,
	}
}
