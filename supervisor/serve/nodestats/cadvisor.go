package nodestats

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

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
	*metric
	// value is false where it is not known.
	value func(*usage.Cgroup) (float64, bool)
}

var families = []family{
	cpu("container_cpu_user_seconds_total", "Cumulative user cpu time consumed in seconds.",
		func(c *usage.CPU) float64 { return seconds(c.User) }),
	cpu("container_cpu_system_seconds_total", "Cumulative system cpu time consumed in seconds.",
		func(c *usage.CPU) float64 { return seconds(c.System) }),
	quota("container_cpu_cfs_periods_total", "Number of elapsed enforcement period intervals.",
		func(c *usage.CPU) float64 { return float64(c.Periods) }),
	quota("container_cpu_cfs_throttled_periods_total", "Number of throttled period intervals.",
		func(c *usage.CPU) float64 { return float64(c.Throttled) }),
	quota("container_cpu_cfs_throttled_seconds_total", "Total time duration the container has been throttled.",
		func(c *usage.CPU) float64 { return seconds(c.ThrottledTime) }),

	memory("container_memory_usage_bytes",
		"Current memory usage in bytes, including all memory regardless of when it was accessed", gauge,
		func(m *usage.Memory) uint64 { return m.Usage }),
	memory("container_memory_working_set_bytes", "Current working set in bytes.", gauge,
		func(m *usage.Memory) uint64 { return m.WorkingSet }),
	memory("container_memory_rss", "Size of RSS in bytes.", gauge, func(m *usage.Memory) uint64 { return m.RSS }),
	memory("container_memory_cache", "Number of bytes of page cache memory.", gauge, func(m *usage.Memory) uint64 {
		return m.Cache
	}),
	memory("container_memory_mapped_file", "Size of memory mapped files in bytes.", gauge,
		func(m *usage.Memory) uint64 { return m.Mapped }),
	memory("container_memory_kernel_usage", "Size of kernel memory allocated in bytes.", gauge,
		func(m *usage.Memory) uint64 { return m.Kernel }),
	memory("container_memory_max_usage_bytes", "Maximum memory usage recorded in bytes", gauge,
		func(m *usage.Memory) uint64 { return m.MaxUsage }),
	memory("container_memory_failcnt", "Number of memory usage hits limits", counter, func(m *usage.Memory) uint64 {
		return m.Failures
	}),
	memory("container_oom_events_total", "Count of out of memory events observed for the container", counter,
		func(m *usage.Memory) uint64 { return m.OOMs }),
	memory("container_memory_events_high_total", "Cumulative count of memory.high throttle events for the container",
		counter, func(m *usage.Memory) uint64 { return m.Throttles }),
	memory("container_memory_events_max_total", "Cumulative count of memory.max limit hit events for the container",
		counter, func(m *usage.Memory) uint64 { return m.Failures }),
	memory("container_memory_file_dirty_bytes",
		"Number of bytes of file cache that has been modified but not yet written back to disk.", gauge,
		func(m *usage.Memory) uint64 { return m.Dirty }),
	memory("container_memory_file_writeback_bytes",
		"Number of bytes of file cache that is currently being written back to disk.", gauge,
		func(m *usage.Memory) uint64 { return m.Writeback }),
	memory("container_memory_pgscan_total", "Cumulative number of pages scanned by the page reclaim algorithm.",
		counter, func(m *usage.Memory) uint64 { return m.Scanned }),
	memory("container_memory_pgsteal_total", "Cumulative number of pages reclaimed by the page reclaim algorithm.",
		counter, func(m *usage.Memory) uint64 { return m.Reclaimed }),
	memory("container_memory_workingset_refault_file_total",
		"Cumulative number of refaults of previously evicted file pages.", counter,
		func(m *usage.Memory) uint64 { return m.RefaultedFile }),
	memory("container_memory_workingset_refault_anon_total",
		"Cumulative number of refaults of previously evicted anonymous pages.", counter,
		func(m *usage.Memory) uint64 { return m.RefaultedAnon }),
	{
		gauge("container_memory_swap", "Container swap usage in bytes."),
		func(c *usage.Cgroup) (float64, bool) {
			if c.Swap == nil {
				return 0, false
			}
			return float64(c.Swap.Usage), true
		},
	},

	pids("container_processes", "Number of processes running inside the container.", func(p *usage.PIDs) uint64 {
		return p.Processes
	}),
	pids("container_threads", "Number of threads running inside the container", func(p *usage.PIDs) uint64 {
		return p.Threads
	}),
	pids("container_threads_max", "Maximum number of threads allowed inside the container, infinity if value is zero",
		func(p *usage.PIDs) uint64 {
			if p.Limit == usage.NoLimit {
				return 0
			}
			return p.Limit
		}),

	limit("container_spec_cpu_shares", "CPU share of the container.", func(l *usage.Limits) uint64 { return l.CPUShares }),
	limit("container_spec_cpu_period", "CPU period of the container.", func(l *usage.Limits) uint64 {
		return l.CPUPeriod
	}),
	{
		gauge("container_spec_cpu_quota", "CPU quota of the container."),
		func(c *usage.Cgroup) (float64, bool) { return float64(c.Limits.CPUQuota), c.Limits.CPUQuota > 0 },
	},
	limit("container_spec_memory_limit_bytes", "Memory limit for the container.", func(l *usage.Limits) uint64 {
		return l.Memory
	}),
	limit("container_spec_memory_reservation_limit_bytes", "Memory reservation limit for the container.",
		func(l *usage.Limits) uint64 { return l.MemoryLow }),
	limit("container_spec_memory_swap_limit_bytes", "Memory swap limit for the container.",
		func(l *usage.Limits) uint64 { return l.MemoryAndSwap }),

	pressure("cpu_waiting", "CPU", "some", func(c *usage.Cgroup) *usage.Pressure { return c.CPUPressure }),
	pressure("cpu_stalled", "CPU", "full", func(c *usage.Cgroup) *usage.Pressure { return c.CPUPressure }),
	pressure("memory_waiting", "memory", "some", func(c *usage.Cgroup) *usage.Pressure { return c.MemoryPressure }),
	pressure("memory_stalled", "memory", "full", func(c *usage.Cgroup) *usage.Pressure { return c.MemoryPressure }),
	pressure("io_waiting", "IO", "some", func(c *usage.Cgroup) *usage.Pressure { return c.IOPressure }),
	pressure("io_stalled", "IO", "full", func(c *usage.Cgroup) *usage.Pressure { return c.IOPressure }),
}

func cpu(name, help string, value func(*usage.CPU) float64) family {
	return family{counter(name, help), func(c *usage.Cgroup) (float64, bool) {
		if c.CPU == nil {
			return 0, false
		}
		return value(c.CPU), true
	}}
}

// quota is told only of those that have one.
func quota(name, help string, value func(*usage.CPU) float64) family {
	return family{counter(name, help), func(c *usage.Cgroup) (float64, bool) {
		if c.CPU == nil || c.Limits.CPUQuota == 0 {
			return 0, false
		}
		return value(c.CPU), true
	}}
}

func memory(name, help string, kind func(name, help string) *metric, value func(*usage.Memory) uint64) family {
	return family{kind(name, help), func(c *usage.Cgroup) (float64, bool) {
		if c.Memory == nil {
			return 0, false
		}
		return float64(value(c.Memory)), true
	}}
}

func pids(name, help string, value func(*usage.PIDs) uint64) family {
	return family{gauge(name, help), func(c *usage.Cgroup) (float64, bool) {
		if c.PIDs == nil {
			return 0, false
		}
		return float64(value(c.PIDs)), true
	}}
}

func limit(name, help string, value func(*usage.Limits) uint64) family {
	return family{gauge(name, help), func(c *usage.Cgroup) (float64, bool) {
		return float64(value(&c.Limits)), c.CPU != nil
	}}
}

func pressure(name, what, part string, of func(*usage.Cgroup) *usage.Pressure) family {
	verb := map[string]string{"some": "waited", "full": "stalled"}[part]
	help := fmt.Sprintf("Total time duration tasks in the container have %s due to %s congestion.", verb, what)
	return family{counter("container_pressure_"+name+"_seconds_total", help), func(c *usage.Cgroup) (float64, bool) {
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
	cpuTotal = counter("container_cpu_usage_seconds_total", "Cumulative cpu time consumed in seconds.")
	faults   = counter("container_memory_failures_total", "Cumulative count of memory allocation failures.")
	started  = gauge("container_start_time_seconds", "Start time of the container since unix epoch in seconds.")
	lastSeen = gauge("container_last_seen", "Last time a container was seen by the exporter")
	fsUsage  = gauge("container_fs_usage_bytes",
		"Number of bytes that are consumed by the container on this filesystem.")
	fsLimit = gauge("container_fs_limit_bytes",
		"Number of bytes that can be consumed by the container on this filesystem.")
	fsInodes     = gauge("container_fs_inodes_total", "Number of Inodes")
	fsFreeInodes = gauge("container_fs_inodes_free", "Number of available Inodes")
	fsReads      = counter("container_fs_reads_total", "Cumulative count of reads completed")
	fsWrites     = counter("container_fs_writes_total", "Cumulative count of writes completed")
	fsReadBytes  = counter("container_fs_reads_bytes_total", "Cumulative count of bytes read")
	fsWriteBytes = counter("container_fs_writes_bytes_total", "Cumulative count of bytes written")
	blockIO      = counter("container_blkio_device_usage_total", "Blkio Device bytes usage")

	fsReadsMerged    = counter("container_fs_reads_merged_total", "Cumulative count of reads merged")
	fsWritesMerged   = counter("container_fs_writes_merged_total", "Cumulative count of writes merged")
	fsSectorsRead    = counter("container_fs_sector_reads_total", "Cumulative count of sector reads completed")
	fsSectorsWritten = counter("container_fs_sector_writes_total", "Cumulative count of sector writes completed")
	fsReading        = counter("container_fs_read_seconds_total", "Cumulative count of seconds spent reading")
	fsWriting        = counter("container_fs_write_seconds_total", "Cumulative count of seconds spent writing")
	fsBusy           = counter("container_fs_io_time_seconds_total", "Cumulative count of seconds spent doing I/Os")
	fsWeighted       = counter("container_fs_io_time_weighted_seconds_total", "Cumulative weighted I/O time in seconds")
	fsCurrent        = gauge("container_fs_io_current", "Number of I/Os currently in progress")

	descriptors = gauge("container_file_descriptors", "Number of open file descriptors for the container.")
	sockets     = gauge("container_sockets", "Number of open sockets for the container.")
	ulimits     = gauge("container_ulimits_soft",
		"Soft ulimit values for the container root process. Unlimited if -1, except priority and nice")

	receivedBytes   = network("receive_bytes_total", "Cumulative count of bytes received")
	receivedPackets = network("receive_packets_total", "Cumulative count of packets received")
	receiveErrors   = network("receive_errors_total", "Cumulative count of errors encountered while receiving")
	receiveDropped  = network("receive_packets_dropped_total", "Cumulative count of packets dropped while receiving")
	sentBytes       = network("transmit_bytes_total", "Cumulative count of bytes transmitted")
	sentPackets     = network("transmit_packets_total", "Cumulative count of packets transmitted")
	sendErrors      = network("transmit_errors_total", "Cumulative count of errors encountered while transmitting")
	sendDropped     = network("transmit_packets_dropped_total", "Cumulative count of packets dropped while transmitting")

	machineCores  = gauge("machine_cpu_cores", "Number of logical CPU cores.")
	machineMemory = gauge("machine_memory_bytes", "Amount of memory installed on the machine.")
	machineSwap   = gauge("machine_swap_bytes", "Amount of swap memory available on the machine.")
	cadvisorError = gauge("container_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise")
)

func network(name, help string) *metric { return counter("container_network_"+name, help) }

// cadvisor is /metrics/cadvisor.
func cadvisor(n usage.Node, pods []usage.Pod, cores int, failed bool) samples {
	s := newSamples()
	s.add(machineCores, time.Time{}, float64(cores), nil)
	s.add(machineMemory, time.Time{}, float64(n.Memory), nil)
	s.add(machineSwap, time.Time{}, float64(n.SwapTotal), nil)
	root := cgroupLabels("", "/", "", "", "", "")
	s.cgroup(&n.Cgroup, n.Booted, root)
	s.interfaces(n.Network, n.Cgroup.At, root)
	s.disk(n.Root, root)
	for i := range n.Parts {
		part := &n.Parts[i]
		if slices.ContainsFunc(n.Parts[:i], func(p usage.Container) bool { return p.ID == part.ID }) {
			continue // one cgroup may have two names
		}
		s.cgroup(&part.Cgroup, part.Started, cgroupLabels("", part.ID, "", "", "", ""))
	}
	for i := range pods {
		s.pod(&pods[i])
	}
	s.add(cadvisorError, time.Time{}, truth(failed), nil)
	return s
}

func cgroupLabels(container, id, image, name, namespace, pod string) labels {
	return labelled("container", container, "id", id, "image", image, "name", name, "namespace", namespace, "pod", pod)
}

// sandboxImage stands for the image of sandboxes, whose full name only the runtime knows. It can't be empty: collectors
// drop lines of a network without an image.
const sandboxImage = "pause"

func (s samples) pod(p *usage.Pod) {
	if p.ID != "" {
		s.cgroup(&p.Cgroup, p.Started, cgroupLabels("", p.ID, "", "", p.Namespace, p.Name))
	}
	b := &p.Sandbox
	s.interfaces(p.Network, p.NetworkAt,
		cgroupLabels("", cmp.Or(b.ID, p.ID), sandboxImage, b.RuntimeID, p.Namespace, p.Name))
	for i := range p.Containers {
		c := &p.Containers[i]
		of := cgroupLabels(c.Name, c.ID, c.Image, c.RuntimeID, p.Namespace, p.Name)
		s.cgroup(&c.Cgroup, c.Started, of)
		s.open(c.Open, c.Cgroup.At, of)
	}
}

func (s samples) open(o *usage.Open, at time.Time, of labels) {
	if o == nil {
		return
	}
	s.add(descriptors, at, float64(o.Descriptors), of)
	s.add(sockets, at, float64(o.Sockets), of)
	if o.Limit != nil {
		s.add(ulimits, at, float64(*o.Limit), of.with("ulimit", "max_open_files"))
	}
}

func (s samples) cgroup(c *usage.Cgroup, since time.Time, of labels) {
	if c.CPU == nil && c.Memory == nil {
		return // it is not there any more
	}
	for _, f := range families {
		if value, ok := f.value(c); ok {
			s.add(f.metric, c.At, value, of)
		}
	}
	if c.CPU != nil {
		s.add(cpuTotal, c.At, seconds(c.CPU.Usage), of.with("cpu", "total"))
	}
	if m := c.Memory; m != nil {
		minor, major := of.with("failure_type", "pgfault"), of.with("failure_type", "pgmajfault")
		s.add(faults, c.At, float64(m.OwnFaults), minor.with("scope", "container"))
		s.add(faults, c.At, float64(m.Faults), minor.with("scope", "hierarchy"))
		s.add(faults, c.At, float64(m.OwnMajorFaults), major.with("scope", "container"))
		s.add(faults, c.At, float64(m.MajorFaults), major.with("scope", "hierarchy"))
	}
	if !since.IsZero() {
		s.add(started, time.Time{}, unix(since), of)
	}
	s.add(lastSeen, time.Time{}, float64(c.At.Unix()), of)
	for _, d := range c.IO {
		s.device(d, c.At, of)
	}
}

func (s samples) device(d usage.Device, at time.Time, of labels) {
	major, minor := strconv.FormatUint(d.Major, 10), strconv.FormatUint(d.Minor, 10)
	of = of.with("device", cmp.Or(d.Name, major+":"+minor))
	s.add(fsReads, at, float64(d.Reads), of)
	s.add(fsWrites, at, float64(d.Writes), of)
	s.add(fsReadBytes, at, float64(d.BytesRead), of)
	s.add(fsWriteBytes, at, float64(d.BytesWritten), of)
	of = of.with("major", major).with("minor", minor)
	s.add(blockIO, at, float64(d.BytesRead), of.with("operation", "Read"))
	s.add(blockIO, at, float64(d.BytesWritten), of.with("operation", "Write"))
}

func (s samples) disk(d *usage.Disk, of labels) {
	if d == nil {
		return
	}
	of = of.with("device", cmp.Or(d.Device, "root"))
	for _, v := range []struct {
		is    *metric
		value *uint64
	}{{fsUsage, d.Used}, {fsLimit, d.Capacity}, {fsInodes, d.Inodes}, {fsFreeInodes, d.InodesFree}} {
		if v.value != nil {
			s.add(v.is, d.At, float64(*v.value), of)
		}
	}
	if d.IO == nil {
		return
	}
	for _, v := range []struct {
		is    *metric
		value float64
	}{
		{fsReadsMerged, float64(d.IO.ReadsMerged)}, {fsWritesMerged, float64(d.IO.WritesMerged)},
		{fsSectorsRead, float64(d.IO.SectorsRead)}, {fsSectorsWritten, float64(d.IO.SectorsWritten)},
		{fsReading, seconds(d.IO.Reading)}, {fsWriting, seconds(d.IO.Writing)}, {fsBusy, seconds(d.IO.Busy)},
		{fsWeighted, seconds(d.IO.Weighted)}, {fsCurrent, float64(d.IO.Current)},
	} {
		s.add(v.is, d.At, v.value, of)
	}
}

func (s samples) interfaces(all []usage.Interface, at time.Time, of labels) {
	for _, i := range all {
		of := of.with("interface", i.Name)
		for _, v := range []struct {
			is    *metric
			value uint64
		}{
			{receivedBytes, i.RxBytes}, {receivedPackets, i.RxPackets}, {receiveErrors, i.RxErrors},
			{receiveDropped, i.RxDropped},
			{sentBytes, i.TxBytes}, {sentPackets, i.TxPackets}, {sendErrors, i.TxErrors}, {sendDropped, i.TxDropped},
		} {
			s.add(v.is, at, float64(v.value), of)
		}
	}
}
