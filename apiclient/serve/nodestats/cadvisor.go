package nodestats

import (
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-dev/troupe/actors/decide/usage"
)

// The names of /metrics/cadvisor are those of cAdvisor
// (github.com/google/cadvisor, docs/storage/prometheus.md), with the labels that a
// kubelet gives them.
//
// Each cgroup has its own lines, told apart by id: a container's have its name,
// image and ID, a pod's are the sum of its containers and have no container, as
// those of a node's parts have neither. Dashboards leave the sums out by
// container!="".

// family is a name whose value follows from a cgroup.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	// value is false where it is not known.
	value func(*usage.Cgroup) (float64, bool)
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

var ofCgroup = []string{"container", "id", "image", "name", "namespace", "pod"}

func with(more ...string) []string { return append(ofCgroup[:len(ofCgroup):len(ofCgroup)], more...) }

var families = []family{
	cpu("container_cpu_user_seconds_total", "Cumulative user cpu time consumed in seconds.", func(c *usage.CPU) float64 { return seconds(c.User) }),
	cpu("container_cpu_system_seconds_total", "Cumulative system cpu time consumed in seconds.", func(c *usage.CPU) float64 { return seconds(c.System) }),
	quota("container_cpu_cfs_periods_total", "Number of elapsed enforcement period intervals.", func(c *usage.CPU) float64 { return float64(c.Periods) }),
	quota("container_cpu_cfs_throttled_periods_total", "Number of throttled period intervals.", func(c *usage.CPU) float64 { return float64(c.Throttled) }),
	quota("container_cpu_cfs_throttled_seconds_total", "Total time duration the container has been throttled.", func(c *usage.CPU) float64 { return seconds(c.ThrottledTime) }),

	memory("container_memory_usage_bytes", "Current memory usage in bytes, including all memory regardless of when it was accessed", gauge, func(m *usage.Memory) uint64 { return m.Usage }),
	memory("container_memory_working_set_bytes", "Current working set in bytes.", gauge, func(m *usage.Memory) uint64 { return m.WorkingSet }),
	memory("container_memory_rss", "Size of RSS in bytes.", gauge, func(m *usage.Memory) uint64 { return m.RSS }),
	memory("container_memory_cache", "Number of bytes of page cache memory.", gauge, func(m *usage.Memory) uint64 { return m.Cache }),
	memory("container_memory_mapped_file", "Size of memory mapped files in bytes.", gauge, func(m *usage.Memory) uint64 { return m.Mapped }),
	memory("container_memory_kernel_usage", "Size of kernel memory allocated in bytes.", gauge, func(m *usage.Memory) uint64 { return m.Kernel }),
	memory("container_memory_max_usage_bytes", "Maximum memory usage recorded in bytes", gauge, func(m *usage.Memory) uint64 { return m.MaxUsage }),
	memory("container_memory_failcnt", "Number of memory usage hits limits", counter, func(m *usage.Memory) uint64 { return m.Failures }),
	memory("container_oom_events_total", "Count of out of memory events observed for the container", counter, func(m *usage.Memory) uint64 { return m.OOMs }),
	{
		desc("container_memory_swap", "Container swap usage in bytes.", ofCgroup...), gauge,
		func(c *usage.Cgroup) (float64, bool) {
			if c.Swap == nil {
				return 0, false
			}
			return float64(c.Swap.Usage), true
		},
	},

	pids("container_processes", "Number of processes running inside the container.", func(p *usage.PIDs) uint64 { return p.Processes }),
	pids("container_threads", "Number of threads running inside the container", func(p *usage.PIDs) uint64 { return p.Threads }),
	pids("container_threads_max", "Maximum number of threads allowed inside the container, infinity if value is zero", func(p *usage.PIDs) uint64 {
		if p.Limit == usage.NoLimit {
			return 0
		}
		return p.Limit
	}),

	limit("container_spec_cpu_shares", "CPU share of the container.", func(l *usage.Limits) uint64 { return l.CPUShares }),
	limit("container_spec_cpu_period", "CPU period of the container.", func(l *usage.Limits) uint64 { return l.CPUPeriod }),
	{
		desc("container_spec_cpu_quota", "CPU quota of the container.", ofCgroup...), gauge,
		func(c *usage.Cgroup) (float64, bool) { return float64(c.Limits.CPUQuota), c.Limits.CPUQuota > 0 },
	},
	limit("container_spec_memory_limit_bytes", "Memory limit for the container.", func(l *usage.Limits) uint64 { return l.Memory }),
	limit("container_spec_memory_reservation_limit_bytes", "Memory reservation limit for the container.", func(l *usage.Limits) uint64 { return l.MemoryLow }),
	limit("container_spec_memory_swap_limit_bytes", "Memory swap limit for the container.", func(l *usage.Limits) uint64 { return l.MemoryAndSwap }),

	pressure("cpu_waiting", "CPU", "some", func(c *usage.Cgroup) *usage.Pressure { return c.CPUPressure }),
	pressure("cpu_stalled", "CPU", "full", func(c *usage.Cgroup) *usage.Pressure { return c.CPUPressure }),
	pressure("memory_waiting", "memory", "some", func(c *usage.Cgroup) *usage.Pressure { return c.MemoryPressure }),
	pressure("memory_stalled", "memory", "full", func(c *usage.Cgroup) *usage.Pressure { return c.MemoryPressure }),
	pressure("io_waiting", "IO", "some", func(c *usage.Cgroup) *usage.Pressure { return c.IOPressure }),
	pressure("io_stalled", "IO", "full", func(c *usage.Cgroup) *usage.Pressure { return c.IOPressure }),
}

func cpu(name, help string, value func(*usage.CPU) float64) family {
	return family{desc(name, help, ofCgroup...), counter, func(c *usage.Cgroup) (float64, bool) {
		if c.CPU == nil {
			return 0, false
		}
		return value(c.CPU), true
	}}
}

// quota is told only of those that have one.
func quota(name, help string, value func(*usage.CPU) float64) family {
	return family{desc(name, help, ofCgroup...), counter, func(c *usage.Cgroup) (float64, bool) {
		if c.CPU == nil || c.Limits.CPUQuota == 0 {
			return 0, false
		}
		return value(c.CPU), true
	}}
}

func memory(name, help string, kind prometheus.ValueType, value func(*usage.Memory) uint64) family {
	return family{desc(name, help, ofCgroup...), kind, func(c *usage.Cgroup) (float64, bool) {
		if c.Memory == nil {
			return 0, false
		}
		return float64(value(c.Memory)), true
	}}
}

func pids(name, help string, value func(*usage.PIDs) uint64) family {
	return family{desc(name, help, ofCgroup...), gauge, func(c *usage.Cgroup) (float64, bool) {
		if c.PIDs == nil {
			return 0, false
		}
		return float64(value(c.PIDs)), true
	}}
}

func limit(name, help string, value func(*usage.Limits) uint64) family {
	return family{desc(name, help, ofCgroup...), gauge, func(c *usage.Cgroup) (float64, bool) {
		return float64(value(&c.Limits)), c.CPU != nil
	}}
}

func pressure(name, what, part string, of func(*usage.Cgroup) *usage.Pressure) family {
	verb := map[string]string{"some": "waited", "full": "stalled"}[part]
	help := fmt.Sprintf("Total time duration tasks in the container have %s due to %s congestion.", verb, what)
	return family{desc("container_pressure_"+name+"_seconds_total", help, ofCgroup...), counter, func(c *usage.Cgroup) (float64, bool) {
		p := of(c)
		if p == nil {
			return 0, false
		}
		if part == "full" {
			return seconds(p.Full.Total), true
		}
		return seconds(p.Some.Total), true
	}}
}

var (
	cpuTotal     = desc("container_cpu_usage_seconds_total", "Cumulative cpu time consumed in seconds.", with("cpu")...)
	faults       = desc("container_memory_failures_total", "Cumulative count of memory allocation failures.", with("failure_type", "scope")...)
	started      = desc("container_start_time_seconds", "Start time of the container since unix epoch in seconds.", ofCgroup...)
	lastSeen     = desc("container_last_seen", "Last time a container was seen by the exporter", ofCgroup...)
	fsUsage      = desc("container_fs_usage_bytes", "Number of bytes that are consumed by the container on this filesystem.", with("device")...)
	fsLimit      = desc("container_fs_limit_bytes", "Number of bytes that can be consumed by the container on this filesystem.", with("device")...)
	fsInodes     = desc("container_fs_inodes_total", "Number of Inodes", with("device")...)
	fsFreeInodes = desc("container_fs_inodes_free", "Number of available Inodes", with("device")...)
	fsReads      = desc("container_fs_reads_total", "Cumulative count of reads completed", with("device")...)
	fsWrites     = desc("container_fs_writes_total", "Cumulative count of writes completed", with("device")...)
	fsReadBytes  = desc("container_fs_reads_bytes_total", "Cumulative count of bytes read", with("device")...)
	fsWriteBytes = desc("container_fs_writes_bytes_total", "Cumulative count of bytes written", with("device")...)
	blockIO      = desc("container_blkio_device_usage_total", "Blkio Device bytes usage", with("device", "major", "minor", "operation")...)

	receivedBytes   = network("receive_bytes_total", "Cumulative count of bytes received")
	receivedPackets = network("receive_packets_total", "Cumulative count of packets received")
	receiveErrors   = network("receive_errors_total", "Cumulative count of errors encountered while receiving")
	receiveDropped  = network("receive_packets_dropped_total", "Cumulative count of packets dropped while receiving")
	sentBytes       = network("transmit_bytes_total", "Cumulative count of bytes transmitted")
	sentPackets     = network("transmit_packets_total", "Cumulative count of packets transmitted")
	sendErrors      = network("transmit_errors_total", "Cumulative count of errors encountered while transmitting")
	sendDropped     = network("transmit_packets_dropped_total", "Cumulative count of packets dropped while transmitting")

	machineCores  = desc("machine_cpu_cores", "Number of logical CPU cores.")
	machineMemory = desc("machine_memory_bytes", "Amount of memory installed on the machine.")
	machineSwap   = desc("machine_swap_bytes", "Amount of swap memory available on the machine.")
	cadvisorError = desc("container_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise")
)

func network(name, help string) *prometheus.Desc {
	return desc("container_network_"+name, help, with("interface")...)
}

// cadvisor is /metrics/cadvisor.
func cadvisor(n usage.Node, pods []usage.Pod, cores int, failed bool) (s samples) {
	s.add(machineCores, gauge, time.Time{}, float64(cores))
	s.add(machineMemory, gauge, time.Time{}, float64(n.Memory))
	s.add(machineSwap, gauge, time.Time{}, float64(n.SwapTotal))
	root := labels("", "/", "", "", "", "")
	s.cgroup(&n.Cgroup, n.Booted, root)
	s.interfaces(n.Network, n.Cgroup.At, root)
	s.disk(n.Root, "root", root)
	for i := range n.Parts {
		part := &n.Parts[i]
		s.cgroup(&part.Cgroup, part.Started, labels("", part.ID, "", "", "", ""))
	}
	for i := range pods {
		s.pod(&pods[i])
	}
	s.add(cadvisorError, gauge, time.Time{}, truth(failed))
	return s
}

// labels are in the order of ofCgroup.
func labels(container, id, image, name, namespace, pod string) []string {
	return []string{container, id, image, name, namespace, pod}
}

func (s *samples) pod(p *usage.Pod) {
	own := labels("", p.ID, "", "", p.Namespace, p.Name)
	if p.ID != "" {
		s.cgroup(&p.Cgroup, p.Started, own)
	}
	if b := &p.Sandbox; b.RuntimeID != "" {
		own = labels("", b.ID, b.Image, b.RuntimeID, p.Namespace, p.Name)
		s.cgroup(&b.Cgroup, p.Started, own)
	}
	s.interfaces(p.Network, p.NetworkAt, own)
	for i := range p.Containers {
		c := &p.Containers[i]
		of := labels(c.Name, c.ID, c.Image, c.RuntimeID, p.Namespace, p.Name)
		s.cgroup(&c.Cgroup, c.Started, of)
		s.disk(c.Rootfs, "rootfs", of)
	}
}

func (s *samples) cgroup(c *usage.Cgroup, since time.Time, of []string) {
	if c.CPU == nil && c.Memory == nil {
		return // it is not there any more
	}
	for _, f := range families {
		if value, ok := f.value(c); ok {
			s.add(f.desc, f.kind, c.At, value, of...)
		}
	}
	if c.CPU != nil {
		s.add(cpuTotal, counter, c.At, seconds(c.CPU.Usage), append(of[:len(of):len(of)], "total")...)
	}
	if m := c.Memory; m != nil {
		s.add(faults, counter, c.At, float64(m.Faults), append(of[:len(of):len(of)], "pgfault", "hierarchy")...)
		s.add(faults, counter, c.At, float64(m.MajorFaults), append(of[:len(of):len(of)], "pgmajfault", "hierarchy")...)
	}
	if !since.IsZero() {
		s.add(started, gauge, time.Time{}, unix(since), of...)
	}
	s.add(lastSeen, gauge, time.Time{}, float64(c.At.Unix()), of...)
	for _, d := range c.IO {
		s.device(d, c.At, of)
	}
}

func (s *samples) device(d usage.Device, at time.Time, of []string) {
	major, minor := strconv.FormatUint(d.Major, 10), strconv.FormatUint(d.Minor, 10)
	name := major + ":" + minor // what the kernel calls it is not known here
	more := func(with ...string) []string { return append(of[:len(of):len(of)], with...) }
	s.add(fsReads, counter, at, float64(d.Reads), more(name)...)
	s.add(fsWrites, counter, at, float64(d.Writes), more(name)...)
	s.add(fsReadBytes, counter, at, float64(d.BytesRead), more(name)...)
	s.add(fsWriteBytes, counter, at, float64(d.BytesWritten), more(name)...)
	s.add(blockIO, counter, at, float64(d.BytesRead), more(name, major, minor, "Read")...)
	s.add(blockIO, counter, at, float64(d.BytesWritten), more(name, major, minor, "Write")...)
}

func (s *samples) disk(d *usage.Disk, device string, of []string) {
	if d == nil {
		return
	}
	of = append(of[:len(of):len(of)], device)
	for _, v := range []struct {
		desc  *prometheus.Desc
		value *uint64
	}{{fsUsage, d.Used}, {fsLimit, d.Capacity}, {fsInodes, d.Inodes}, {fsFreeInodes, d.InodesFree}} {
		if v.value != nil {
			s.add(v.desc, gauge, d.At, float64(*v.value), of...)
		}
	}
}

func (s *samples) interfaces(all []usage.Interface, at time.Time, of []string) {
	for _, i := range all {
		of := append(of[:len(of):len(of)], i.Name)
		for _, v := range []struct {
			desc  *prometheus.Desc
			value uint64
		}{
			{receivedBytes, i.RxBytes}, {receivedPackets, i.RxPackets}, {receiveErrors, i.RxErrors}, {receiveDropped, i.RxDropped},
			{sentBytes, i.TxBytes}, {sentPackets, i.TxPackets}, {sendErrors, i.TxErrors}, {sendDropped, i.TxDropped},
		} {
			s.add(v.desc, counter, at, float64(v.value), of...)
		}
	}
}
