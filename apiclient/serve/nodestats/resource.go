package nodestats

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-dev/troupe/actors/decide/usage"
)

// The names of /metrics/resource, stable since Kubernetes 1.29 (KEP-727): what
// metrics-server reads.
var (
	nodeCPU    = desc("node_cpu_usage_seconds_total", "Cumulative cpu time consumed by the node in core-seconds")
	nodeMemory = desc("node_memory_working_set_bytes", "Current working set of the node in bytes")
	nodeSwap   = desc("node_swap_usage_bytes", "Current swap usage of the node in bytes")

	containerCPU       = desc("container_cpu_usage_seconds_total", "Cumulative cpu time consumed by the container in core-seconds", ofContainer...)
	containerMemory    = desc("container_memory_working_set_bytes", "Current working set of the container in bytes", ofContainer...)
	containerSwap      = desc("container_swap_usage_bytes", "Current amount of the container swap usage in bytes", ofContainer...)
	containerSwapLimit = desc("container_swap_limit_bytes", "Current amount of the container swap limit in bytes", ofContainer...)
	containerStart     = desc("container_start_time_seconds", "Start time of the container since unix epoch in seconds", ofContainer...)

	podCPU    = desc("pod_cpu_usage_seconds_total", "Cumulative cpu time consumed by the pod in core-seconds", ofPod...)
	podMemory = desc("pod_memory_working_set_bytes", "Current working set of the pod in bytes", ofPod...)
	podSwap   = desc("pod_swap_usage_bytes", "Current amount of the pod swap usage in bytes", ofPod...)

	scrapeError = desc("resource_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise")

	ofContainer = []string{"container", "pod", "namespace"}
	ofPod       = []string{"pod", "namespace"}
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// resource is /metrics/resource. failed: not all could be read.
func resource(n usage.Node, pods []usage.Pod, failed bool) (s samples) {
	s.basic(nodeCPU, nodeMemory, nodeSwap, n.Cgroup)
	for i := range pods {
		p := &pods[i]
		s.basic(podCPU, podMemory, podSwap, p.Cgroup, p.Name, p.Namespace)
		for j := range p.Containers {
			c := &p.Containers[j]
			labels := []string{c.Name, p.Name, p.Namespace}
			s.basic(containerCPU, containerMemory, containerSwap, c.Cgroup, labels...)
			if swap := c.Cgroup.Swap; swap != nil && swap.Limit != usage.NoLimit {
				s.add(containerSwapLimit, prometheus.GaugeValue, c.Cgroup.At, float64(swap.Limit), labels...)
			}
			if c.Cgroup.CPU != nil && !c.Started.IsZero() {
				s.add(containerStart, prometheus.GaugeValue, time.Time{}, unix(c.Started), labels...)
			}
		}
	}
	s.add(scrapeError, prometheus.GaugeValue, time.Time{}, truth(failed))
	return s
}

// basic are the values that node, pods and containers have in common.
func (s *samples) basic(cpu, memory, swap *prometheus.Desc, c usage.Cgroup, labels ...string) {
	if c.CPU != nil {
		s.add(cpu, prometheus.CounterValue, c.At, seconds(c.CPU.Usage), labels...)
	}
	if c.Memory != nil {
		s.add(memory, prometheus.GaugeValue, c.At, float64(c.Memory.WorkingSet), labels...)
	}
	if c.Swap != nil {
		s.add(swap, prometheus.GaugeValue, c.At, float64(c.Swap.Usage), labels...)
	}
}
