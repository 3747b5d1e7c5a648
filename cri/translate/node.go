package translate

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/isolation"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
)

// DefaultPodLogs is the default directory of pod logs (KubeletConfiguration podLogsDir).
const DefaultPodLogs = "/var/log/pods"

// Node has the node's facts for a translation. It is read only.
type Node struct {
	// RootDir is the agent's root directory (--root-dir); Localhost seccomp
	// profiles are read from seccomp/ below it.
	RootDir string
	// PodLogs is the directory of all pods' logs, DefaultPodLogs if empty.
	PodLogs string

	// ResolvConf is the content of the node's resolver file, for the DNS policy
	// Default and as the tail of ClusterFirst's search list.
	ResolvConf string
	// NoResolvConf, if not nil, is why ResolvConf is not known. Pods that need it can't have a sandbox.
	NoResolvConf error
	// LocalResolver is KubeletConfiguration's resolvConf: "" — pods with the policy Default use
	// the node itself as resolver, and ResolvConf is not used.
	LocalResolver bool
	// NodeIPs are the addresses of --node-ip: with LocalResolver, pods ask themselves by the same families.
	NodeIPs []netip.Addr
	// ClusterDNS are the addresses of the cluster's DNS. Without any,
	// ClusterFirst falls back to Default.
	ClusterDNS []string
	// ClusterDomain is the domain of services, such as cluster.local.
	ClusterDomain string

	// MemoryCapacity is the node's memory in bytes, for oom_score_adj of burstable containers.
	// Zero: unknown; they get the highest value below best-effort.
	MemoryCapacity int64
	// HugePageSizes are the kernel's sizes, as in the hugetlb cgroup files: 2MB, 1GB. A container
	// gets a limit for each, 0 by default.
	HugePageSizes []string
	// PossibleCPUs is 1 above the highest CPU that the kernel may ever use: the thermal counters of each are
	// masked in containers.
	PossibleCPUs int
	// OOMScoreAdjFloor, if not nil, is the lowest oom_score_adj that the agent may set: its own
	// where it has no CAP_SYS_RESOURCE.
	OOMScoreAdjFloor *int64
	// CgroupV2: this host has cgroup v2, so a container's limits may name its files.
	CgroupV2 bool
	// SwapAccounting says that the memory cgroup can limit swap. Containers then
	// get no swap, unless Memory gives them some; with cgroup v1, where
	// the limit is one on memory and swap together, only those with a memory limit.
	SwapAccounting bool
	// Memory is how the memory of containers is treated. It needs CgroupV2.
	Memory podcgroup.MemoryPolicy
	// OOMKillGroup lets the kernel kill a whole container that exceeds its memory limit, and not
	// one of its processes. It needs CgroupV2. (KubeletConfiguration singleProcessOOMKill: false,
	// the default there)
	OOMKillGroup bool
	// NoCPUQuota turns the CFS quota off (cpuCFSQuota: false).
	NoCPUQuota bool
	// NoQuotaOfOwnCPUs is podcgroup.Settings.NoQuotaOfOwnCPUs.
	NoQuotaOfOwnCPUs bool
	// CPUQuotaPeriod is the CFS period, 100 ms if zero (cpuCFSQuotaPeriod).
	CPUQuotaPeriod time.Duration
	// FileLabels reports whether files at a path of a host with SELinux have labels of their own, which the runtime can
	// change. Nil: this host has no SELinux.
	FileLabels func(path string) bool
	// SeccompDefault makes RuntimeDefault the profile of containers without one.
	SeccompDefault bool

	// CgroupParent returns the cgroup of a pod, in cgroupfs syntax. Nil or empty: the runtime's
	// default.
	CgroupParent func(*v1.Pod) string
	// UserNamespace returns the ID mapping of a pod with hostUsers: false. Nil: this node has
	// none for pods.
	UserNamespace func(*v1.Pod) (isolation.IDMapping, error)
	// Handlers are the features of the runtime's handlers; nil if they are unknown.
	Handlers []v1.NodeRuntimeHandler
}

// can reports whether the handler of that name, empty for the runtime's default, has a feature.
func (n *Node) can(handler string, feature func(*v1.NodeRuntimeHandlerFeatures) *bool) bool {
	for i := range n.Handlers {
		if h := &n.Handlers[i]; h.Name == handler && h.Features != nil {
			return isTrue(feature(h.Features))
		}
	}
	return false
}

// Validate returns the first problem of n.
func (n *Node) Validate() error {
	switch {
	case n.PodLogs != "" && !filepath.IsAbs(n.PodLogs):
		return fmt.Errorf("pod logs directory %q is not an absolute path", n.PodLogs)
	case n.RootDir != "" && !filepath.IsAbs(n.RootDir):
		return fmt.Errorf("root directory %q is not an absolute path", n.RootDir)
	case n.MemoryCapacity < 0:
		return errors.New("memory capacity is negative")
	case n.CPUQuotaPeriod != 0 && (n.CPUQuotaPeriod < time.Millisecond || n.CPUQuotaPeriod > time.Second):
		return fmt.Errorf("CPU quota period %s is not between 1ms and 1s", n.CPUQuotaPeriod)
	case n.OOMKillGroup && !n.CgroupV2:
		return errors.New("OOM kill of a group needs cgroup v2")
	case (n.Memory.QoS || n.Memory.LimitedSwap) && !n.CgroupV2:
		return errors.New("MemoryQoS and swap of containers need cgroup v2")
	}
	return nil
}

func (n *Node) podLogs() string {
	if n.PodLogs == "" {
		return DefaultPodLogs
	}
	return n.PodLogs
}

// quotaPeriod is the CFS period in microseconds.
func (n *Node) quotaPeriod() int64 {
	if n.CPUQuotaPeriod == 0 {
		return 100_000
	}
	return n.CPUQuotaPeriod.Microseconds()
}
