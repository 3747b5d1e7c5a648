package nodestats

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/usage"
)

// The names of /metrics/resource, stable since Kubernetes 1.29 (KEP-727): what
// metrics-server reads.
var (
	nodeCPU    = counter("node_cpu_usage_seconds_total", "Cumulative cpu time consumed by the node in core-seconds")
	nodeMemory = gauge("node_memory_working_set_bytes", "Current working set of the node in bytes")
	nodeSwap   = gauge("node_swap_usage_bytes", "Current swap usage of the node in bytes")

	containerCPU = counter("container_cpu_usage_seconds_total",
		"Cumulative cpu time consumed by the container in core-seconds")
	containerMemory    = gauge("container_memory_working_set_bytes", "Current working set of the container in bytes")
	containerSwap      = gauge("container_swap_usage_bytes", "Current amount of the container swap usage in bytes")
	containerSwapLimit = gauge("container_swap_limit_bytes", "Current amount of the container swap limit in bytes")
	containerStart     = gauge("container_start_time_seconds", "Start time of the container since unix epoch in seconds")

	podCPU    = counter("pod_cpu_usage_seconds_total", "Cumulative cpu time consumed by the pod in core-seconds")
	podMemory = gauge("pod_memory_working_set_bytes", "Current working set of the pod in bytes")
	podSwap   = gauge("pod_swap_usage_bytes", "Current amount of the pod swap usage in bytes")

	scrapeError = gauge("resource_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise")
)

// resource is /metrics/resource. failed: not all could be read.
func resource(n usage.Node, pods []usage.Pod, failed bool) samples {
	s := newSamples()
	s.basic(nodeCPU, nodeMemory, nodeSwap, n.Cgroup, nil)
	for i := range pods {
		p := &pods[i]
		s.basic(podCPU, podMemory, podSwap, p.Cgroup, labelled("namespace", p.Namespace, "pod", p.Name))
		for j := range p.Containers {
			c := &p.Containers[j]
			of := labelled("container", c.Name, "namespace", p.Namespace, "pod", p.Name)
			s.basic(containerCPU, containerMemory, containerSwap, c.Cgroup, of)
			if swap := c.Cgroup.Swap; swap != nil && swap.Limit != usage.NoLimit {
				s.add(containerSwapLimit, c.Cgroup.At, float64(swap.Limit), of)
			}
			if c.Cgroup.CPU != nil && !c.Started.IsZero() {
				s.add(containerStart, time.Time{}, unix(c.Started), of)
			}
		}
	}
	s.add(scrapeError, time.Time{}, truth(failed), nil)
	return s
}

// basic are the values that node, pods and containers have in common.
func (s samples) basic(cpu, memory, swap *metric, c usage.Cgroup, of labels) {
	if c.CPU != nil {
		s.add(cpu, c.At, seconds(c.CPU.Usage), of)
	}
	if c.Memory != nil {
		s.add(memory, c.At, float64(c.Memory.WorkingSet), of)
	}
	if c.Swap != nil {
		s.add(swap, c.At, float64(c.Swap.Usage), of)
	}
}
