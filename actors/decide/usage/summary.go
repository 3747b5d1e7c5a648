package usage

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// Summary is the usage of a node and its pods, as in /stats/summary.
func Summary(n Node, pods []Pod) *stats.Summary {
	out := &stats.Summary{Node: nodeStats(n), Pods: make([]stats.PodStats, len(pods))}
	for i := range pods {
		out.Pods[i] = podStats(&pods[i], n.Root)
	}
	return out
}

func nodeStats(n Node) stats.NodeStats {
	out := stats.NodeStats{
		NodeName: n.Name, StartTime: metav1.NewTime(n.Booted),
		CPU:    cpuStats(n.Cgroup),
		Memory: ownFaults(n.Cgroup, memoryStats(n.Cgroup, less(n.Memory, n.HugePages))),
		IO:     ioStats(n.Cgroup), Swap: swapStats(n.Cgroup),
		Network: networkStats(n.Network, n.Cgroup.At), Fs: diskStats(n.Root),
	}
	if n.Images != nil || n.Layers != nil {
		out.Runtime = &stats.RuntimeStats{ImageFs: diskStats(n.Images), ContainerFs: diskStats(n.Layers)}
	}
	if n.MaxPIDs > 0 {
		out.Rlimit = &stats.RlimitStats{Time: metav1.NewTime(n.Cgroup.At), MaxPID: new(int64(n.MaxPIDs)),
			NumOfRunningProcesses: new(int64(n.PIDs))}
	}
	for _, p := range n.Parts {
		c := containerStats(&p)
		c.Memory = ownFaults(p.Cgroup, c.Memory)
		if p.Name == stats.SystemContainerPods && c.Memory != nil {
			c.Memory.AvailableBytes = available(p.Cgroup, n.Memory)
		}
		out.SystemContainers = append(out.SystemContainers, c)
	}
	return out
}

func podStats(p *Pod, root *Disk) stats.PodStats {
	out := stats.PodStats{
		PodRef:    stats.PodReference{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)},
		StartTime: metav1.NewTime(p.Started), Containers: []stats.ContainerStats{},
		CPU: cpuStats(p.Cgroup), Memory: memoryStats(p.Cgroup, 0), IO: ioStats(p.Cgroup), Swap: swapStats(p.Cgroup),
		Network: networkStats(p.Network, p.NetworkAt),
	}
	var local []*Disk
	for i := range p.Containers {
		if n := p.Containers[i].Cgroup.PIDs; n != nil { // processes, not threads, and not the sandbox's
			if out.ProcessStats == nil {
				out.ProcessStats = &stats.ProcessStats{ProcessCount: new(uint64)}
			}
			*out.ProcessStats.ProcessCount += n.Processes
		}
		out.Containers = append(out.Containers, containerStats(&p.Containers[i]))
		local = append(local, p.Containers[i].Rootfs, p.Containers[i].Logs)
	}
	for i := range p.Volumes {
		v := &p.Volumes[i]
		s := stats.VolumeStats{Name: v.Name, FsStats: *diskStats(&v.Disk)}
		if v.Claim != "" {
			s.PVCRef = &stats.PVCReference{Namespace: v.Namespace, Name: v.Claim}
		}
		if v.Abnormal != nil {
			s.VolumeHealthStats = &stats.VolumeHealthStats{Abnormal: *v.Abnormal}
		}
		if v.Local {
			local = append(local, &v.Disk)
		}
		out.VolumeStats = append(out.VolumeStats, s)
	}
	out.EphemeralStorage = diskStats(ephemeral(local, root))
	return out
}

// ephemeral is a pod's usage of the node's disk: layers, logs, and volumes without their own file
// system.
func ephemeral(parts []*Disk, root *Disk) *Disk {
	var used, inodes uint64
	known := false
	for _, d := range parts {
		if d == nil || d.Used == nil {
			continue
		}
		known = true
		used += *d.Used
		if d.InodesUsed != nil {
			inodes += *d.InodesUsed
		}
	}
	if !known || root == nil {
		return nil
	}
	d := *root
	d.Used, d.InodesUsed = &used, &inodes
	return &d
}

func containerStats(c *Container) stats.ContainerStats {
	return stats.ContainerStats{
		Name: c.Name, StartTime: metav1.NewTime(c.Started),
		CPU: cpuStats(c.Cgroup), Memory: memoryStats(c.Cgroup, 0), IO: ioStats(c.Cgroup), Swap: swapStats(c.Cgroup),
		Rootfs: diskStats(c.Rootfs), Logs: diskStats(c.Logs),
	}
}

func cpuStats(c Cgroup) *stats.CPUStats {
	if c.CPU == nil {
		return nil
	}
	out := &stats.CPUStats{Time: metav1.NewTime(c.At), UsageCoreNanoSeconds: new(uint64(c.CPU.Usage)),
		PSI: psi(c.CPUPressure)}
	if c.CPU.Rate != nil {
		out.UsageNanoCores = c.CPU.Rate
	}
	return out
}

// memoryStats reports memory. most is what a cgroup without a limit may use; 0 if unknown.
func memoryStats(c Cgroup, most uint64) *stats.MemoryStats {
	m := c.Memory
	if m == nil {
		return nil
	}
	return &stats.MemoryStats{
		Time: metav1.NewTime(c.At), AvailableBytes: available(c, most), UsageBytes: &m.Usage, WorkingSetBytes: &m.WorkingSet,
		RSSBytes: &m.RSS, PageFaults: &m.Faults, MajorPageFaults: &m.MajorFaults, PSI: psi(c.MemoryPressure),
	}
}

// ownFaults leaves out page faults in the cgroups below: of the node and its parts, a kubelet counts none of these
// (stats/helper.go). cgroup v2 does not tell them apart.
func ownFaults(c Cgroup, of *stats.MemoryStats) *stats.MemoryStats {
	if of != nil {
		of.PageFaults, of.MajorPageFaults = &c.Memory.OwnFaults, &c.Memory.OwnMajorFaults
	}
	return of
}

func available(c Cgroup, most uint64) *uint64 {
	if c.Limits.Memory > 0 && (most == 0 || c.Limits.Memory < most) {
		most = c.Limits.Memory
	}
	if most == 0 {
		return nil
	}
	return new(less(most, c.Memory.WorkingSet))
}

func ioStats(c Cgroup) *stats.IOStats {
	if c.IOPressure == nil {
		return nil
	}
	return &stats.IOStats{Time: metav1.NewTime(c.At), PSI: psi(c.IOPressure)}
}

func swapStats(c Cgroup) *stats.SwapStats {
	if c.Swap == nil {
		return nil
	}
	out := &stats.SwapStats{Time: metav1.NewTime(c.At), SwapUsageBytes: &c.Swap.Usage}
	if c.Swap.Limit != NoLimit {
		out.SwapAvailableBytes = new(less(c.Swap.Limit, c.Swap.Usage))
	}
	return out
}

func psi(p *Pressure) *stats.PSIStats {
	if p == nil {
		return nil
	}
	of := func(p PressureOf) stats.PSIData {
		return stats.PSIData{Total: uint64(p.Total / time.Microsecond), Avg10: p.Avg10, Avg60: p.Avg60, Avg300: p.Avg300}
	}
	return &stats.PSIStats{Some: of(p.Some), Full: of(p.Full)}
}

func diskStats(d *Disk) *stats.FsStats {
	if d == nil {
		return nil
	}
	return &stats.FsStats{
		Time: metav1.NewTime(d.At), CapacityBytes: d.Capacity, AvailableBytes: d.Available, UsedBytes: d.Used,
		Inodes: d.Inodes, InodesFree: d.InodesFree, InodesUsed: d.InodesUsed,
	}
}

// networkStats lists the interfaces, with the one called eth0 at the top. Without one, nothing is at the top: a kubelet
// says of no other that it is the main one (stats/helper.go, cadvisorInfoToNetworkStats).
func networkStats(all []Interface, at time.Time) *stats.NetworkStats {
	if len(all) == 0 {
		return nil
	}
	out := &stats.NetworkStats{Time: metav1.NewTime(at)}
	for i := range all {
		out.Interfaces = append(out.Interfaces, interfaceStats(&all[i]))
		if all[i].Name == "eth0" {
			out.InterfaceStats = out.Interfaces[i]
		}
	}
	return out
}

func interfaceStats(i *Interface) stats.InterfaceStats {
	return stats.InterfaceStats{Name: i.Name, RxBytes: &i.RxBytes, RxErrors: &i.RxErrors, TxBytes: &i.TxBytes,
		TxErrors: &i.TxErrors}
}
